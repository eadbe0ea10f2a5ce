from tailrace.runtime.process import main
from tailrace_gateway.app import role

main(role)
