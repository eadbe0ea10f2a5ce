from tailrace.runtime.process import main
from tailrace_controller.app import role

main(role)
