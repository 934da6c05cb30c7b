package coordinator

import (
	"context"

	"github.com/edl-go/edl/proto/rpc"
)

// ShowQueues is Queues for a test in this process, where time is made up and no connection can be.
func (s *Server) ShowQueues(ctx context.Context, m *rpc.QueuesRequest) (*rpc.QueuesResponse, error) {
	return s.overview.queues(ctx, m)
}
