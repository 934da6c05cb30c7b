// Package cluster is where the members of a job find each other: addresses, leases, the coordinator's lock and what it keeps under it, and the nodes
// of a cluster.
//
// A Registry keeps a few keys under the prefix of its job:
//
//	/edl/<job>/ps_desired          how many pservers the job has; without a lease, so that it outlives every member
//	/edl/<job>/trainers_desired    how many trainers it wants now; without a lease
//	/edl/<job>/ps/<index>          address of a live pserver
//	/edl/<job>/master/lock         held by the one coordinator; its create revision is the fencing number of the job
//	/edl/<job>/master/addr         address of the coordinator that holds the lock
//	/edl/<job>/trainer/<rank>      present while a trainer lives
//	/edl/<job>/*_mark/...          whether the last holder of a key has left in order, and how many were lost before; without a lease
//	/edl/<job>/task_queues/...     the State of the coordinator
//	/edl/<job>/task_queues         names the last transaction of State
//	/edl/nodes/<id>                address of a listener that starts roles
//
// A member owns its key for as long as it renews its lease. A lease that ends without Leave makes a lost member, which Lost reports, and tells the
// member itself through Done that it must change nothing any more. Done is closed, too, when the lease could not be renewed for its duration, as it
// seems to the member: after a pause of the process that is the first thing that Done and State notice. Whoever knows that a member's process is dead
// need not wait for its lease: Bury.
//
// A lock alone does not exclude a process that was paused while it held it. Every transaction of State is conditioned on the lock, and messages carry
// its create revision, so that whoever has seen a newer one refuses them.
//
// The rules are written once, over a small store with revisions, leases and ordered watches. Open keeps the store in etcd, NewMemory in this
// process, and Embed runs an etcd server inside of this process for clusters of one machine. A real cluster of etcd may ask for certificates and a
// password (Access); roles find them in their environment. It should compact what is old (--auto-compaction-retention of etcd): a coordinator
// makes revisions all the time. The user needs read and write access to /edl/.
package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/edl-go/edl/proto/job"
)

// A Registry is one process's handle on the members of one job. Its methods may be called concurrently. Those that wait do so until ctx ends, and
// their error then names what was missing.
type Registry interface {
	// SetDesired says how many pservers the job has. The number outlives this process.
	SetDesired(ctx context.Context, servers int) error
	// Desired returns how many pservers the job has; it waits until that has been said.
	Desired(ctx context.Context) (int, error)

	// SetTrainers says how many trainers the job wants now. The number outlives this process.
	SetTrainers(ctx context.Context, trainers int) error
	// Trainers returns how many trainers the job wants; it waits until that has been said.
	Trainers(ctx context.Context) (int, error)
	// WatchTrainers tells how many trainers the job wants, now if it has been said, and whenever the number changes. A receiver that is slow sees the
	// latest number only. The channel is closed when ctx ends, the registry is closed, or the store refuses to tell more.
	WatchTrainers(ctx context.Context) (<-chan int, error)

	// ClaimServer announces the pserver of an index; AnyIndex takes the first free one below Desired. It fails with fault.Fenced when a live
	// member holds the index, or all of them.
	ClaimServer(ctx context.Context, index int, address string) (Membership, error)
	// Servers returns the addresses of pservers 0 to n-1; it waits until all are there.
	Servers(ctx context.Context, n int) ([]string, error)
	// Server returns the address of one pserver; it waits until it is there.
	Server(ctx context.Context, index int) (string, error)

	// LeadCoordinator takes the coordinator's lock and announces address, in one transaction; it waits while another holds the lock. The Fence of
	// the membership is greater than that of every earlier coordinator of the job.
	LeadCoordinator(ctx context.Context, address string) (Membership, error)
	// Coordinator returns the address of the coordinator; it waits until there is one.
	Coordinator(ctx context.Context) (string, error)

	// JoinTrainer announces a trainer. It fails with fault.Fenced when a live member holds the rank.
	JoinTrainer(ctx context.Context, rank int) (Membership, error)

	// Lost reports members whose lease ended without Leave, each loss once; first those that are lost now. When a report is read, the member may
	// have joined again: Live tells. The channel is closed when ctx ends, the registry is closed, or the store refuses to tell more.
	Lost(ctx context.Context) (<-chan Member, error)

	// Live returns the members that live now, with their incarnations: the Fence of the membership that each holds.
	Live(ctx context.Context) (map[Member]uint64, error)
	// Bury ends the membership of a member whose process the caller knows to be dead, at once instead of at the end of its lease; the member is
	// lost. It does nothing unless the member lives in the given incarnation; 0 stands for whoever holds its key now. A later holder is
	// never hit, and a process that is not dead after all learns of its end through Done.
	Bury(ctx context.Context, m Member, incarnation uint64) error

	// Follow tells the address of the coordinator or of a pserver, now and whenever it changes; it is "" while there is none. A receiver that is slow
	// sees the latest one only. The channel is closed when ctx ends, the registry is closed, or the store refuses to tell more.
	Follow(ctx context.Context, m Member) (<-chan string, error)

	// State returns what the coordinator that holds the lock keeps. It is the same for every call with the same membership.
	State(leader Membership) State
	// Forget removes what is known of a history that has ended: the state of the coordinator, members, addresses and losses. The numbers of pservers and
	// trainers stay. The members must have ended: those that have not lose their keys without being lost, and can change nothing any more.
	Forget(ctx context.Context) error

	// RegisterNode announces a listener that starts roles for any job of the cluster. It fails with fault.Fenced when a live one holds the id.
	RegisterNode(ctx context.Context, id, address string) (Membership, error)
	// Nodes returns the nodes that live now, ordered by id.
	Nodes(ctx context.Context) ([]Node, error)

	// Close ends every membership of this handle that has not left: it is lost at once.
	Close() error
}

// AnyIndex asks ClaimServer for the first free index.
const AnyIndex = -1

// A Membership is a key that this process holds by renewing its lease.
type Membership interface {
	// Member says which member of the job this is; zero for a node.
	Member() Member
	// Done is closed when the lease is lost. The holder must not change shared state any more. Leave does not close it.
	Done() <-chan struct{}
	// Leave gives the key up in order, so that its holder does not count as lost. It fails with fault.Fenced when the lease was lost before. After
	// fault.Unavailable it is not known whether that was heard, and Leave may be called again.
	Leave(ctx context.Context) error
	// Fence is the revision at which the key was taken: later holders have greater ones.
	Fence() uint64
}

// A Member is a role of a job by its index.
type Member struct {
	Role  job.Role
	Index int // of a pserver, rank of a trainer, 0 of the coordinator
}

// String names the member as messages do: "pserver 1".
func (m Member) String() string {
	switch m.Role {
	case job.Role_COORDINATOR:
		return "coordinator"
	case job.Role_PSERVER:
		return fmt.Sprintf("pserver %d", m.Index)
	case job.Role_TRAINER:
		return fmt.Sprintf("trainer %d", m.Index)
	}
	return fmt.Sprintf("member %d", m.Index)
}

// ID names the member as commands, logs and the list of processes do: "pserver-1".
func (m Member) ID() string { return strings.ReplaceAll(m.String(), " ", "-") }

// A Node is a listener that starts roles.
type Node struct {
	ID      string
	Address string
}
