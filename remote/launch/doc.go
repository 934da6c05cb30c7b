// Package launch starts the roles of a job: as goroutines of this process, as child processes, or on the nodes of a cluster. Whoever starts a role
// does not know which.
//
// A child process is given its job.RoleSpec on its standard input, which then stays open for as long as the parent lives. The end of that pipe is
// how a child learns that its parent is gone, however it died: no child outlives its parent. A child is in a process group of its own, so that an
// interrupt from the terminal reaches the parent alone, which then stops its children in order.
//
// What a role writes arrives line by line. The last line is part of the error of a role that failed.
package launch
