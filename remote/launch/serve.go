package launch

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// ServeRole is the node's side of Nodes: it receives a RoleSpec from the stream of Listener.StartRole, starts the role with l, and sends its log, its
// reports and how it ends. It returns when the role has ended. An error means that no role was started.
func ServeRole(stream grpc.BidiStreamingServer[rpc.StartRoleChunk, rpc.RoleEvent], l Launcher) error {
	spec := &job.RoleSpec{}
	err := wire.ReceivePieces(spec, MaxSpec, func() ([]byte, error) {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, fault.E(fault.Canceled, fault.At("role spec"), fault.Got("the end of the stream"),
				fault.Want("an empty piece after the last"))
		}
		if err == nil && len(m.Piece) == 0 {
			return nil, io.EOF
		}
		return m.GetPiece(), err
	})
	if err != nil {
		return err
	}
	e := &events{stream: stream, member: cluster.Member{Role: spec.Role, Index: int(spec.Index)}}
	defer e.end()
	h, err := l.Start(stream.Context(), spec, e)
	if err != nil {
		return err
	}
	e.tell(job.State_RUNNING, nil)
	ended := make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() { e.passReports(h, ended) })
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil { // at the latest when this call has ended
				break
			}
			if m.Renewal == nil {
				h.Kill()
			} else if err := h.Renew(m.Renewal); err != nil {
				fmt.Fprintln(e, err)
			}
		}
		h.Stop(jobspec.DeadlinesOf(spec.Spec).NodeStop)
	}()
	err = h.Wait()
	close(ended)
	passing.Wait()
	e.tellEnd(err)
	return nil
}

// tellEnd sends how the role has ended.
func (e *events) tellEnd(err error) {
	switch {
	case err == nil:
		e.tell(job.State_SUCCEEDED, nil)
	case errors.Is(err, fault.Canceled):
		e.tell(job.State_STOPPED, err)
	default:
		e.tell(job.State_FAILED, err)
	}
}

// events sends what happens to one role. It is the role's log.
type events struct {
	stream interface{ Send(*rpc.RoleEvent) error }
	member cluster.Member

	mu    sync.Mutex
	ended bool // nothing is sent any more, though a role that was given up may still write
}

// Write sends one line.
func (e *events) Write(line []byte) (int, error) {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(line), "\n"), "\uFFFD")
	e.send(&rpc.RoleEvent{Log: &rpc.LogLine{Role: e.member.String(), Line: text}})
	return len(line), nil
}

// tell sends the state of the role.
func (e *events) tell(state job.State, err error) {
	e.send(&rpc.RoleEvent{Status: &job.RoleStatus{Role: e.member.Role, Index: uint32(e.member.Index), State: state,
		ExitCode: int32(fault.KindOf(err).ExitCode()), Failure: wire.FailureOf(err)}})
}

// passReports sends what the role reports, whenever that has changed, until the role has ended, and then its trace.
func (e *events) passReports(h Handle, ended <-chan struct{}) {
	var last *job.RoleReport
	for sent, over := false, false; ; {
		list, changed := h.Waits()
		last = &job.RoleReport{Waits: list, Rounds: h.Rounds()}
		if sent || len(list) > 0 || last.Rounds != nil {
			e.send(&rpc.RoleEvent{Report: last})
			sent = true
		}
		if over {
			break
		}
		select {
		case <-changed:
		case <-ended:
			over = true
		}
	}
	trace, _ := h.Trace()
	for piece := range slices.Chunk(trace, MaxReport/2) {
		e.send(&rpc.RoleEvent{Report: &job.RoleReport{Trace: piece}})
	}
	if len(trace) > 0 {
		e.send(&rpc.RoleEvent{Report: last}) // so it is known to be whole
	}
}

// send sends one event. It ignores errors: they mean that the stream has broken, and then its context ends the role.
func (e *events) send(event *rpc.RoleEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		_ = e.stream.Send(event)
	}
}

func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}
