package etcdtest

import "syscall"

// attributes keep signals of the terminal away from a server: the test ends it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
