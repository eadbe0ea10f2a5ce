from tailrace.runtime import main
from tailrace_gateway.app import role

main(role)
