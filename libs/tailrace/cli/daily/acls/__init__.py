"""`tailrace acl`: ACLs as kafka-acls.sh takes them."""
