from tailrace.runtime import main
from tailrace_controller.app import role

main(role)
