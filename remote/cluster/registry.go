package cluster

import (
	"context"
	"fmt"

	"github.com/edl-go/edl/proto/job"
)

// A Registry is one process's handle on the members of one job. Its methods may be called concurrently. Those that wait do so until ctx ends, and their
// error then names what was missing.
type Registry interface {
	// SetDesired says how many pservers the job has. The number outlives this process.
	SetDesired(ctx context.Context, servers int) error
	// Desired returns how many pservers the job has; it waits until that has been said.
	Desired(ctx context.Context) (int, error)

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

	// Lost reports members whose lease ended without Leave, those of the past first, each once. The channel is closed when ctx ends or the
	// registry is closed.
	Lost(ctx context.Context) (<-chan Member, error)

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
	// Leave gives the key up in order, so that its holder does not count as lost. It fails with fault.Fenced when the lease was lost before.
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

// A Node is a listener that starts roles.
type Node struct {
	ID      string
	Address string
}
