from tailrace.runtime.process import main
from tailrace_coordinator.app import role

main(role)
