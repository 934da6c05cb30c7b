// Package waits is the one room for waits: what a process waits for now, who can end that, since when, and until when.
//
// Every wait of a job is listed. A server, whose calls wait for a change of its state, guards that state with a Monitor. A process that
// calls others and answers no calls, such as a trainer, enters its waits on a Board. Both list what is waited for as job.Wait, which is what `edl why` prints.
//
// Files in reading order: wait.go has a Wait and its texts and bounds; monitor.go the lock of a server's state and the waits for its changes;
// board.go the waits of a process that serves nobody; countdown.go limits that do not count while the process is stopped; order.go puts the waits of a whole job in the order in which a person should read them.
//
// What a Monitor promises:
//
//	Await --> condition? --yes--> return nil
//	   ^          | no
//	   |          v
//	   |     entered in the list, asleep --> the limit has passed    --> DeadlineExceeded, names what was waited for
//	   |          |                      --> the context has ended   --> Canceled or DeadlineExceeded
//	   |          v                      --> End(err)                --> err
//	   +--- Broadcast                    --> End(nil), no condition  --> Stale
package waits
