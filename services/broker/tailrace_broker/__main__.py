from tailrace.runtime import main
from tailrace_broker.app import role

main(role)
