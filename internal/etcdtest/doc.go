// Package etcdtest runs real etcd servers, as processes, for tests: they can be killed, paused and started again. The server is built from its
// module, in the version of go.mod, once for all tests of this user.
package etcdtest
