// Package listen is RemoteExecutor.listen: the server that takes jobs and runs them.
//
// A Manager takes a JobSpec with a program, verifies and transpiles it, starts coordinator, pservers and trainers through a launcher,
// follows them to their end, and keeps the job's events, logs and status. Server is the gRPC service over a Manager. When a role fails, the
// others are stopped and the job fails with the reason that tells most: the job never waits for a process that is gone.
package listen
