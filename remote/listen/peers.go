package listen

import (
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
)

// peers are the servers of a job, wherever their current processes are.
type peers struct {
	coordinator rpc.CoordinatorClient
	servers     []rpc.ParameterServerClient
}

func newPeers(of *cluster.Peers, servers int) (*peers, error) {
	coordinator, err := of.Coordinator()
	if err != nil {
		return nil, err
	}
	p := &peers{coordinator: coordinator}
	p.servers, err = of.Servers(servers)
	return p, err
}
