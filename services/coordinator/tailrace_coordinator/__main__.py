from tailrace.runtime import main
from tailrace_coordinator.app import role

main(role)
