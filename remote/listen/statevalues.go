package listen

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// The calls of this file move the values of kept states between an executor and the listener.

// MaxState bounds the values of one call of WriteState or ReadState, in encoded bytes.
const MaxState = 1 << 30

// MaxVariables bounds the variables of one call of WriteState: each is a file.
const MaxVariables = 1 << 16

// unnamedFor is how long the listener keeps an upload whose sender says that it confirms, and that no call has named: the answer was lost, or the sender is gone. A sender confirms
// at once, so it may wait with its job for longer.
const unnamedFor = time.Hour

// write makes a state of what an executor has uploaded, and returns its id. It stops, and leaves nothing behind, when ctx ends: nobody would learn of
// the id.
func (s *states) write(ctx context.Context, m *rpc.StateValues) (id string, err error) {
	if len(m.Values) > MaxVariables {
		return "", fault.E(fault.TooLarge, fault.Gotf("a state of %d variables", len(m.Values)), fault.Wantf("at most %d", MaxVariables))
	}
	namespace, err := callerOf(ctx).home(m.Namespace)
	if err != nil {
		return "", err
	}
	progress := jobspec.ProgressOf(m.Progress)
	if err := progress.Check(); err != nil {
		return "", err
	}
	var bytes int64
	for _, v := range m.Values {
		bytes += int64(len(v.Stream))
	}
	id = jobspec.ID(namespace, "state-"+rand.Text()[:10])
	s.mu.Lock()
	if err = s.admit(namespace, 1, bytes); err != nil {
		s.mu.Unlock()
		return "", err
	}
	dir, err := s.newDir()
	if err == nil {
		s.held[id] = &keptState{dir: dir, owner: callerOf(ctx).user, bytes: bytes, pending: true, used: time.Now()}
	}
	s.mu.Unlock()
	if err != nil {
		return "", err
	}
	err = writeValues(ctx, dir, m.Values, progress)
	var content uint32
	if err == nil {
		content, err = contentOf(s, dir)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.held[id]
	switch {
	case k == nil: // the listener has closed
		return "", fault.New(fault.Unavailable, "the listener is closing")
	case err != nil:
		k.released = true
	}
	k.pending = false
	if err == nil && m.Confirms {
		k.content = content
		awaitName(s, id, k, unnamedFor)
	}
	if err == nil {
		if err = s.note(id, content); err != nil {
			k.released = true
		}
	}
	s.removeUnused(id)
	return id, err
}

func writeValues(ctx context.Context, dir string, values []*job.Value, progress executor.Progress) error {
	storage, err := executor.NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer storage.Close()
	if err := storage.Begin(); err != nil {
		return err
	}
	for _, v := range values {
		if ctx.Err() != nil {
			return fault.E(fault.Canceled, fault.Got("an upload whose sender is gone"), fault.Cause(context.Cause(ctx)))
		}
		t, err := tensor.DecodeFile(v.Stream, tensor.Limits{Bytes: MaxState})
		if err != nil {
			return fault.E(fault.KindOf(err), fault.Var(v.Name), fault.Cause(err))
		}
		if tensor.IsShort(v.Stream) {
			err = storage.SaveShort(v.Name, t, false)
		} else {
			err = storage.Save(v.Name, []*tensor.Tensor{t}, false)
		}
		if err != nil {
			return err
		}
	}
	return storage.Commit(&progress)
}

// read returns variables of a state: those in names that it has, or all.
func (s *states) read(id string, names []string) (*rpc.StateValues, error) {
	dir, done, err := s.use(id)
	if err != nil {
		return nil, err
	}
	defer done()
	progress, _, err := executor.ReadProgress(dir)
	if err != nil {
		return nil, err
	}
	all := &rpc.StateValues{Progress: jobspec.ProgressMessage(progress)}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.File(fault.Unavailable, dir, err)
	}
	defer root.Close()
	var bytes int64
	err = eachVariable(dir, func(name string, size int64) error {
		if len(names) > 0 && !slices.Contains(names, name) {
			return nil
		}
		if bytes += size; bytes > MaxState {
			return fault.E(fault.TooLarge, fault.At("state "+id), fault.Gotf("variables of more than %d bytes", int64(MaxState)),
				fault.Want("fewer variables in one call"))
		}
		stream, err := readStream(root, name, size)
		all.Values = append(all.Values, &job.Value{Name: name, Stream: stream})
		return err
	})
	return all, err
}

func readStream(root *os.Root, name string, size int64) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.Var(name), fault.Cause(err))
	}
	defer f.Close()
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fault.E(fault.Unavailable, fault.Var(name), fault.Cause(err))
	}
	return b, nil
}

// ReadState returns variables of a state that the listener holds.
func (s *Server) ReadState(m *rpc.ReadStateRequest, stream grpc.ServerStreamingServer[rpc.Piece]) error {
	by := callerOf(stream.Context())
	id := by.means(m.State)
	if err := s.Manager.states.mayUse(by, id, ""); err != nil {
		return err
	}
	values, err := s.Manager.states.read(id, m.Names)
	if err != nil {
		return err
	}
	return wire.Send(stream, values)
}

// WriteState makes the listener hold a state.
func (s *Server) WriteState(stream grpc.ClientStreamingServer[rpc.Piece, rpc.WriteStateResponse]) error {
	m := &rpc.StateValues{}
	coming := upload{of: &s.Manager.budget, by: callerOf(stream.Context())}
	defer coming.end()
	err := coming.receive(m, MaxState, uploadSilence, func() ([]byte, error) {
		p, err := stream.Recv()
		return p.GetPiece(), err
	})
	if err != nil {
		return err
	}
	id, err := s.Manager.states.write(stream.Context(), m)
	if err != nil {
		return err
	}
	err = stream.SendAndClose(&rpc.WriteStateResponse{State: id})
	if err != nil || stream.Context().Err() != nil { // nobody knows the id
		_ = s.Manager.states.release(id)
	}
	return err
}

// ReleaseState lets the listener forget a state.
func (s *Server) ReleaseState(ctx context.Context, m *rpc.ReleaseStateRequest) (*rpc.ReleaseStateResponse, error) {
	by := callerOf(ctx)
	id := by.means(m.State)
	if err := s.Manager.states.mayUse(by, id, ""); err != nil {
		return nil, err
	}
	return &rpc.ReleaseStateResponse{}, s.Manager.states.release(id)
}

// stopTimers ends what removes uploads. s.mu is held.
func stopTimers(s *states) {
	for _, k := range s.held {
		if k.unnamed != nil {
			k.unnamed.Stop()
		}
	}
}

// awaitName removes an upload in a while, unless a call names it before. s.mu is held.
func awaitName(s *states, id string, k *keptState, while time.Duration) {
	k.unnamed = time.AfterFunc(while, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.held[id] == k && k.unnamed != nil {
			s.log.Info("an upload is removed that no call has named", "state", id)
			k.released = true
			s.removeUnused(id)
		}
	})
}

// named notes that a call has named a state. s.mu is held.
func named(s *states, id string, k *keptState) {
	if k.unnamed == nil {
		return
	}
	k.unnamed.Stop()
	k.unnamed = nil
	if err := s.note(id, k.content); err != nil {
		s.log.Warn("the next listener may remove a state early, because its note cannot be written now", "state", id, "error", err)
	}
}
