package listen_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/listen"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// value is a variable with some elements.
func value(t *testing.T, name string, elements int64) *job.Value {
	return &job.Value{Name: name, Stream: tensor.AppendStream(nil, testkit.Random(t, tensor.Float32, 1, elements))}
}

// write uploads a state.
func write(t *testing.T, client rpc.ListenerClient, m *rpc.StateValues) (string, error) {
	t.Helper()
	stream, err := client.WriteState(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := wire.Send(stream, m); err != nil {
		t.Fatal(err)
	}
	r, err := stream.CloseAndRecv()
	return r.GetState(), wire.FromStatus("", err)
}

// read returns variables of a state by name.
func read(t *testing.T, client rpc.ListenerClient, id string, names ...string) (*rpc.StateValues, []string, error) {
	t.Helper()
	m := &rpc.StateValues{}
	stream, err := client.ReadState(bounded(t), &rpc.ReadStateRequest{State: id, Names: names})
	if err == nil {
		err = wire.Receive("", stream, m, listen.MaxState)
	}
	var found []string
	for _, v := range m.Values {
		found = append(found, v.Name)
	}
	slices.Sort(found)
	return m, found, wire.FromStatus("", err)
}

func release(t *testing.T, client rpc.ListenerClient, id string) error {
	t.Helper()
	_, err := client.ReleaseState(bounded(t), &rpc.ReleaseStateRequest{State: id})
	return wire.FromStatus("", err)
}

// A state is read as it was written, until it is released.
func TestWriteReadRelease(t *testing.T) {
	h := newHarness(t, listen.Config{RunDir: t.TempDir()}, all(idle))
	client := serve(t, h.Manager)
	progress := &job.Progress{Steps: 7, Pass: 1, Batch: 3, Reader: "hash"}
	a, b := value(t, "a", 3), value(t, "of/b", 5)
	id, err := write(t, client, &rpc.StateValues{Progress: progress, Values: []*job.Value{a, b}})
	if err != nil {
		t.Fatal(err)
	}
	m, found, err := read(t, client, id)
	if err != nil || !slices.Equal(found, []string{"a", "of/b"}) || m.Progress.String() != progress.String() {
		t.Fatalf("%v, %v, %v", found, m.Progress, err)
	}
	if string(m.Values[0].Stream) != string(a.Stream) || string(m.Values[1].Stream) != string(b.Stream) {
		t.Error("the values are others")
	}
	if _, found, err = read(t, client, id, "of/b", "nothing"); err != nil || !slices.Equal(found, []string{"of/b"}) {
		t.Errorf("some of it: %v, %v", found, err)
	}
	if err := release(t, client, id); err != nil {
		t.Error(err)
	}
	if _, _, err := read(t, client, id); !errors.Is(err, fault.NotFound) {
		t.Errorf("a state that is released: %v", err)
	}
	if err := release(t, client, id); !errors.Is(err, fault.NotFound) {
		t.Errorf("released again: %v", err)
	}
}

// What is no state is refused and leaves nothing behind.
func TestWrongStates(t *testing.T) {
	dir := t.TempDir()
	h := newHarness(t, listen.Config{StateDir: dir, MaxStates: 3, MaxStateBytes: 1000}, all(idle))
	client := serve(t, h.Manager)
	truncated := value(t, "a", 3)
	truncated.Stream = truncated.Stream[:len(truncated.Stream)-1]
	longer := value(t, "a", 3)
	longer.Stream = append(longer.Stream, 0)
	for name, c := range map[string]struct {
		m    *rpc.StateValues
		kind fault.Kind
	}{
		"truncated":       {&rpc.StateValues{Values: []*job.Value{truncated}}, fault.Corrupt},
		"too long":        {&rpc.StateValues{Values: []*job.Value{longer}}, fault.Corrupt},
		"no tensor":       {&rpc.StateValues{Values: []*job.Value{{Name: "a"}}}, fault.Corrupt},
		"twice":           {&rpc.StateValues{Values: []*job.Value{value(t, "a", 3), value(t, "a", 3)}}, fault.InvalidArgument},
		"out of the way":  {&rpc.StateValues{Values: []*job.Value{value(t, "../../a", 3)}}, fault.InvalidArgument},
		"no name":         {&rpc.StateValues{Values: []*job.Value{value(t, "", 3)}}, fault.InvalidArgument},
		"a reserved name": {&rpc.StateValues{Values: []*job.Value{value(t, executor.ProgressFile, 3)}}, fault.InvalidArgument},
		"wrong progress":  {&rpc.StateValues{Progress: &job.Progress{Pass: -1}}, fault.InvalidArgument},
		"too large":       {&rpc.StateValues{Values: []*job.Value{value(t, "a", 300)}}, fault.TooLarge},
	} {
		if _, err := write(t, client, c.m); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want kind %v", name, err, c.kind)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 1 { // its lock
		t.Errorf("left behind: %v, %v", left, err)
	}
	if out, err := os.ReadDir(filepath.Dir(dir)); err != nil || slices.ContainsFunc(out, func(d os.DirEntry) bool { return d.Name() == "a" }) {
		t.Errorf("written outside: %v, %v", out, err)
	}
}

// A listener holds so many states and no more; a released one makes room.
func TestBoundOfStates(t *testing.T) {
	h := newHarness(t, listen.Config{StateDir: t.TempDir(), MaxStates: 2}, all(idle))
	client := serve(t, h.Manager)
	var ids []string
	for range 2 {
		id, err := write(t, client, &rpc.StateValues{Values: []*job.Value{value(t, "a", 3)}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	_, err := write(t, client, &rpc.StateValues{})
	if !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "close executors") {
		t.Errorf("a third one: %v", err)
	}
	for range 2 { // those of another namespace are counted by themselves
		if _, err := write(t, client, &rpc.StateValues{Namespace: "ads"}); err != nil {
			t.Error(err)
		}
	}
	if _, err = write(t, client, &rpc.StateValues{Namespace: "ads"}); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "namespace ads") {
		t.Errorf("a third one of a namespace: %v", err)
	}
	if err := release(t, client, ids[0]); err != nil {
		t.Error(err)
	}
	if _, err := write(t, client, &rpc.StateValues{}); err != nil {
		t.Error(err)
	}
}

// A job that replaces the state that it starts with needs no free place. The place of any other job is taken from its start to its end, so that no job
// fails at its end.
func TestPlacesOfJobs(t *testing.T) {
	h := newHarness(t, listen.Config{StateDir: t.TempDir(), MaxStates: 2}, all(idle))
	client := serve(t, h.Manager)
	id, err := write(t, client, &rpc.StateValues{Values: []*job.Value{value(t, "a", 3)}})
	if err != nil {
		t.Fatal(err)
	}
	start := func(from string) (*listen.Job, error) {
		spec := reading(t)
		spec.State, spec.KeepState, spec.Partial = from, true, from != ""
		return h.Start(bounded(t), spec)
	}
	fresh, err := start("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := start(id); err != nil {
		t.Errorf("a job that replaces its state: %v", err)
	}
	for name, from := range map[string]string{"with a new state": "", "with a state that another job replaces": id} {
		if _, err := start(from); !errors.Is(err, fault.TooLarge) || !strings.Contains(err.Error(), "close executors") {
			t.Errorf("a job %s: %v", name, err)
		}
	}
	if err := fresh.Stop(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := start(""); err != nil {
		t.Errorf("a job in the place of one that was stopped: %v", err)
	}
}

// The states end with their listener, and those of a listener that was killed with the next one.
func TestStatesEndWithTheirListener(t *testing.T) {
	dir := t.TempDir()
	killed := filepath.Join(dir, "edl-states-killed")
	if err := os.MkdirAll(filepath.Join(killed, "some"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := newHarness(t, listen.Config{StateDir: dir}, all(idle)), newHarness(t, listen.Config{StateDir: dir}, all(idle))
	of, other := serve(t, first.Manager), serve(t, second.Manager)
	id, err := write(t, of, &rpc.StateValues{Values: []*job.Value{value(t, "a", 3)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(killed); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the states of a listener that was killed: %v", err)
	}
	if _, err := write(t, other, &rpc.StateValues{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := read(t, of, id); err != nil {
		t.Errorf("a state of a listener that lives, when another one begins: %v", err)
	}
	for _, h := range []*harness{first, second} {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The temporary files of a writer that was killed are no variables of a state.
func TestTemporaryFilesAreNoVariables(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "a.part-ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".part-ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		if err := os.WriteFile(filepath.Join(base, name), []byte("bytes"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := listen.CarryOver(dir, base); err != nil {
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || files[0].Name() != "a" {
		t.Errorf("%v, %v", files, err)
	}
}

// An upload of too many variables is refused. One whose sender is gone stops, and leaves neither files nor a state that counts.
func TestUploadsEnd(t *testing.T) {
	dir := t.TempDir()
	h := newHarness(t, listen.Config{StateDir: dir, MaxStates: 1}, all(idle))
	many := &rpc.StateValues{Values: make([]*job.Value, listen.MaxVariables+1)}
	if _, err := listen.Upload(t.Context(), h.Manager, many); !errors.Is(err, fault.TooLarge) {
		t.Errorf("too many variables: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	m := &rpc.StateValues{Values: []*job.Value{value(t, "a", 3)}}
	if _, err := listen.Upload(gone, h.Manager, m); !errors.Is(err, fault.Canceled) {
		t.Errorf("a sender that is gone: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*", "*")); err != nil || len(left) > 1 { // its lock
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := listen.Upload(t.Context(), h.Manager, m); err != nil {
		t.Error(err)
	}
}
