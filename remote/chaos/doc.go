// Package chaos holds the tests that break running jobs: real processes are killed, stopped and cut off at moments that a seed chooses, and the
// result of a job is compared with that of an undisturbed one. A short form runs with all tests; `make chaos` runs the long one.
//
// The code of EDL does not know these tests. Roles reach etcd and each other through proxies because the tests give each role a proxy as its etcd
// endpoint, and replace the addresses that roles announce.
package chaos
