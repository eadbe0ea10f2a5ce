from tailrace.runtime import main
from tailrace_quota.app import role

main(role)
