// Package listen is RemoteExecutor.listen: the server that takes jobs and runs them.
//
// A Manager takes a JobSpec with a program, verifies and transpiles it, starts coordinator, pservers and trainers through a launcher, follows them to
// their end, and keeps the job's events, logs and status, with what its servers have said last. Server is the gRPC service over a Manager.
//
// What becomes of a role that ends is decided by package supervise: most ends are answered by another start. The job never waits for a process that
// is gone, and Why says for whom it waits.
package listen
