package coordinator

import (
	"google.golang.org/grpc"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// Watch streams the steps from the watcher's position on: from the first one, unless it has watched this coordinator before. What is not kept any
// more is left out, and the numbers of the events tell how much that is.
func (s *Server) Watch(m *rpc.WatchRequest, stream grpc.ServerStreamingServer[rpc.WatchResponse]) error {
	if err := s.checkJob(m.Job); err != nil {
		return err
	}
	select {
	case <-s.led:
	case <-stream.Context().Done():
		return gaveUp(stream.Context(), "the coordinator's start")
	}
	s.mu.Lock()
	fence := s.lead.Fence
	s.mu.Unlock()
	from := uint64(0)
	if m.Fence == fence {
		from = m.From
	}
	err := s.log.Read(stream.Context(), from, true, func(number uint64, e *job.Event) error {
		return stream.Send(&rpc.WatchResponse{Event: e, Number: number, Fence: fence})
	})
	if err == nil {
		s.hear()
	}
	return err
}

// Heard is closed when somebody has been told everything up to the end of the job. Whoever serves this coordinator should go on doing so for a while
// until then: a job may be over before its listener has found it.
func (s *Server) Heard() <-chan struct{} { return s.heard }
