from tailrace.runtime.process import main
from tailrace_quota.app import role

main(role)
