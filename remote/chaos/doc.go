// Package chaos holds the tests that break running jobs: real processes are killed, stopped and cut off at moments that a seed chooses, and what a
// job leaves behind is held against what it would have left undisturbed. A short form runs with all tests; `make chaos` runs the long one.
//
// Nothing in the product knows of these tests. Roles reach etcd and each other through proxies because the tests give each role a proxy as its etcd
// endpoint, and replace the addresses that roles announce.
package chaos
