// Package supervise decides what becomes of the roles of a job when they end, lose their leases, or are wanted in another number: which are started
// again, when, and when the job is given up.
//
// A Machine is pure: it has no clock and starts nothing. Whoever drives it passes the time with everything that happens, carries out the effects
// that it answers with, and wakes it at Next.
//
// An end that another start may mend (a crash, a lost lease) is answered by another start of the same index, after a pause that doubles with each
// such end and is forgotten after a run in which the job went on. A pserver whose parameters have begun to change cannot be started again alone: they
// were only in its memory. Then all roles are killed and the history of the job begins again. An error of the program, its data or its configuration
// would come again, and ends the job at once.
package supervise
