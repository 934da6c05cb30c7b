// Package cluster is where the members of a job find each other, in etcd: addresses, leases, the lock of the coordinator and the state that it keeps
// under it, and the nodes of a cluster.
//
// Files in reading order: registry.go is the contract; keys.go the names of keys and the loss records; store.go what is needed of etcd; members.go
// how members join, leave and are removed; keep.go how they stay; era.go how they write again what etcd has lost; contact.go whether etcd answers;
// watch.go how others wait for them and watch them; state.go the state of the coordinator; etcd.go and memory.go the two stores; open.go and embed.go
// the ways to an etcd server; users.go which keys roles reach there; broken.go and files_*.go what can break an embedded one; peers.go connections that follow members.
//
// The keys, below /edl/<job> but for the last:
//
//	key                        value                             written by                  lease
//	/listener                  empty; its listener lives         the listener                its own
//	/era                       how many stores the job has had   the listener                none
//	/ps_desired                how many pservers the job has     the listener                none: it outlives every member
//	/trainers_desired          how many trainers it wants now    the listener                none
//	/ps/<index>                address of a live pserver         that pserver                its own
//	/standby/<index>           address of the live standby of it that standby                its own
//	/master/lock               address of the coordinator        the coordinator; its create revision is the fencing number of the job
//	/master/addr               the same                          with the lock               that of the lock
//	/trainer/<rank>            empty; the trainer lives          that trainer                its own
//	/<role>_losses/...         whether the last holder of the    each member, with its key   none
//	                           member's key has left in order,
//	                           and how many were lost before it
//	/task_queues               token of the last transaction     the coordinator             none
//	/task_queues/...           the State of the coordinator      the coordinator             none
//	/edl/nodes/<id>            address of a listener that        that listener               its own
//	                           starts roles
//
// The life of a member:
//
//	        create key, record "joined n"          delete key, record "left n"
//	absent ------------------------------> lives ------------------------------> absent     (Leave)
//	   ^                                     |
//	   |     the next holder records n+1     |  the lease ends: not renewed, or the handle is closed     (key gone, record still "joined n")
//	   +--------- lost <---------------- without key --> lives, record "joined n as R": it takes its key anew
//	              record "lost n": by who watches, or by RevokeLease
//
// A member owns its key for as long as it renews its lease. When the lease ends without Leave, whoever watches for losses declares the member lost, in
// its loss record; the next holder of the key does the same. WatchLost reports that to the others, and Done tells the member itself that it must not
// change shared state any more. A caller that knows that the process of a member is dead need not wait for its lease: it calls RevokeLease. A member
// whose lease has ended, and which nobody has declared lost, takes its key anew and stays the same incarnation (keep.go).
//
// A lock alone does not stop a process that was paused while it held the lock, or was cut off from etcd. Every transaction of State is conditioned on
// the lock. Messages carry the fence, so that everyone who has seen a newer one refuses them.
//
// While etcd is away, calls try again until their context ends, and their error names what they waited for. A watch goes on when etcd is back, with
// the keys as they are then; loss records make sure that no loss is missed. Nobody is lost meanwhile, and for the time of a lease after it nobody is
// declared lost whose lease has ended (contact.go). A commit without an answer is tried again under the same token, so that it is applied once.
//
// The rules are written once, over a small store with revisions, leases and ordered watches. Open keeps the store in etcd, NewMemory in this process,
// and Embed runs an etcd server inside this process, for a cluster of one machine. A real etcd cluster may ask for certificates and a password
// (Access); roles find them in their environment. It should compact old revisions (--auto-compaction-retention of etcd), because a coordinator makes
// revisions all the time. If it loses all its data, the members of jobs that run write theirs again (era.go). The user needs read and write access to /edl/.
package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/id"
)

// A Registry is one process's handle on the members of one job. Its methods may be called concurrently. Methods that wait do so until ctx ends; their
// error then names what was missing.
type Registry interface {
	// SetDesired sets how many pservers the job has. The number outlives this process.
	SetDesired(ctx context.Context, servers int) error
	// Desired returns how many pservers the job has; it waits until SetDesired was called.
	Desired(ctx context.Context) (int, error)

	// SetTrainers sets how many trainers the job wants now. The number outlives this process.
	SetTrainers(ctx context.Context, trainers int) error
	// Trainers returns how many trainers the job wants; it waits until SetTrainers was called.
	Trainers(ctx context.Context) (int, error)
	// WatchTrainers reports how many trainers the job wants: now, if the number is set, and whenever it changes. A slow receiver sees only the latest
	// number. The channel is closed when ctx ends, the registry is closed, or the store refuses to report more.
	WatchTrainers(ctx context.Context) (<-chan int, error)

	// JoinServer announces the pserver of an index; AnyIndex takes the first free index below Desired. It fails with fault.Fenced when a live
	// member holds the index, or live members hold all of them.
	JoinServer(ctx context.Context, index int, address string) (Membership, error)
	// JoinStandby announces the standby of a pserver. It fails with fault.Fenced when a live member holds the index.
	JoinStandby(ctx context.Context, index int, address string) (Membership, error)
	// Servers returns the addresses of pservers 0 to n-1; it waits until all are there.
	Servers(ctx context.Context, n int) ([]string, error)
	// Server returns the address of one pserver; it waits until it is there.
	Server(ctx context.Context, index int) (string, error)

	// LeadCoordinator takes the coordinator's lock and announces address, in one transaction; it waits while another coordinator holds the lock. The
	// Fence of the membership is greater than the Fence of every earlier coordinator of the job.
	LeadCoordinator(ctx context.Context, address string) (Membership, error)
	// Coordinator returns the address of the coordinator; it waits until there is one.
	Coordinator(ctx context.Context) (string, error)

	// JoinTrainer announces a trainer. It fails with fault.Fenced when a live member holds the rank.
	JoinTrainer(ctx context.Context, rank int) (Membership, error)

	// WatchLost reports members whose lease ended without Leave, each loss once; first the members that are lost now. When a report is received, the
	// member may have joined again; Live knows. The channel is closed when ctx ends, the registry is closed, or the store refuses to report more.
	WatchLost(ctx context.Context) (<-chan Member, error)

	// Live returns the members that live now, with their incarnations.
	Live(ctx context.Context) (map[Member]id.Incarnation, error)
	// RevokeLease ends the lease of a member whose process the caller knows to be dead, at once instead of when it runs out; the member is lost. It does
	// nothing unless the member lives in the given incarnation; 0 stands for any incarnation. A later holder of the key keeps it. If the process is
	// not dead after all, its Done closes.
	RevokeLease(ctx context.Context, m Member, incarnation id.Incarnation) error

	// WatchAddress reports the address of the coordinator, of a pserver or of a standby, now and whenever it changes; it is "" while there is none. A slow receiver
	// sees only the latest address. The channel is closed when ctx ends, the registry is closed, or the store refuses to report more.
	WatchAddress(ctx context.Context, m Member) (<-chan string, error)

	// State returns what the coordinator that holds the lock keeps. It is the same for every call with the same membership.
	State(leader Membership) State
	// Forget removes everything of an attempt of the job that has ended: the state of the coordinator, members, addresses and loss records. The numbers
	// of pservers and trainers stay. All members must have ended. A member that has not loses its key, is not reported as lost, and can change nothing.
	Forget(ctx context.Context) error

	// Entry returns an entry of the coordinator's state as it is durable now, whoever leads; nil: there is none.
	Entry(ctx context.Context, key string) ([]byte, error)

	// Claim makes this listener the one that runs the job. It fails with fault.Fenced when another one that lives does.
	Claim(ctx context.Context) (Membership, error)
	// Remove removes all keys of the job, if owner, which Claim has returned, still holds it. All members must have ended.
	Remove(ctx context.Context, owner Membership) error
	// RemoveAbandoned removes all keys of the jobs of the cluster that no listener runs and no member lives of, and returns their names: their listeners
	// were killed. It reports whether it has seen others, which may be about to end.
	RemoveAbandoned(ctx context.Context) (removed []string, others bool, err error)

	// RegisterNode announces a listener that starts roles for any job of the cluster. It fails with fault.Fenced when a live one holds the id.
	RegisterNode(ctx context.Context, id, address string) (Membership, error)
	// Nodes returns the nodes that live now, ordered by id.
	Nodes(ctx context.Context) ([]Node, error)

	// Silent returns since when the store has answered nothing, and the last error if there was one; the zero time while it answers. Only a handle that
	// holds a membership, or is used, can tell.
	Silent() (since time.Time, reason error)

	// Close ends this handle. Each of its memberships that has not left is lost at once.
	Close() error
}

// AnyIndex asks JoinServer for the first free index.
const AnyIndex = -1

// A Membership is a key that this process holds by renewing its lease.
type Membership interface {
	// Member says which member of the job this is; zero for a node.
	Member() Member
	// Done is closed when the member was declared lost, or another one has its place. The holder must not change shared state any more. Leave does not
	// close it. It is not closed while etcd is away.
	Done() <-chan struct{}
	// Leave gives up the key, so that the member does not count as lost. It fails with fault.Fenced when the lease was lost before. After
	// fault.Unavailable it is not known whether the member has left; Leave may be called again.
	Leave(ctx context.Context) error
	// Incarnation is the revision at which the member joined: later holders of its key have greater ones.
	Incarnation() id.Incarnation
	// Fence is the same revision, of a coordinator's lock.
	Fence() id.Fence
}

// A Member is a role of a job by its index.
type Member struct {
	Role  job.Role
	Index int // of a pserver or of the one that a standby follows, rank of a trainer, 0 of the coordinator
}

// String names the member as messages do: "pserver 1".
func (m Member) String() string {
	switch m.Role {
	case job.Role_COORDINATOR:
		return "coordinator"
	case job.Role_PSERVER:
		return fmt.Sprintf("pserver %d", m.Index)
	case job.Role_STANDBY:
		return fmt.Sprintf("standby %d", m.Index)
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
