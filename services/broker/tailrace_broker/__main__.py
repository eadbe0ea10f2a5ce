from tailrace.runtime.process import main
from tailrace_broker.app import role

main(role)
