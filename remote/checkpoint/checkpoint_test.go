package checkpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/tensor"
	"google.golang.org/protobuf/proto"
)

// What was written by two servers can be read by any number.
func TestReadByRows(t *testing.T) {
	for kind, s := range stores(t) {
		name := save(t, s, "digits-1", 100)
		c, err := s.Read(t.Context(), name)
		if err != nil {
			t.Fatal(kind, err)
		}
		if got := c.Variables(); !slices.Equal(got, []string{"lr", "n", "w"}) {
			t.Errorf("%s: the variables are %v", kind, got)
		}
		if want := (executor.Progress{Steps: 100, Pass: 1, Batch: 2, Reader: "abc"}); c.Progress() != want || string(c.Manifest.Ledger) != "ledger" {
			t.Errorf("%s: the progress is %+v", kind, c.Progress())
		}
		for first := int64(0); first <= 5; first++ {
			for last := first; last <= 5; last++ {
				into := numbers(t, -1, last-first, 3)
				if err := c.Load(t.Context(), "w", first, into); err != nil {
					t.Fatal(kind, first, last, err)
				}
				want := numbers(t, 100+float32(3*first), last-first, 3)
				if !slices.Equal(into.Float32s(), want.Float32s()) {
					t.Errorf("%s: rows %d to %d are %v", kind, first, last, into.Float32s())
				}
			}
		}
		n := numbers(t, 0)
		if err := c.Load(t.Context(), "n", 0, n); err != nil || n.Float32s()[0] != 7 {
			t.Errorf("%s: n is %v, %v", kind, n, err)
		}
		if err := c.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	s := stores(t)["bucket"]
	c, err := s.Read(t.Context(), save(t, s, "digits-1", 100))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := tensor.New(tensor.Int64, 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		variable string
		first    int64
		into     *tensor.Tensor
		kind     fault.Kind
	}{
		{"v", 0, numbers(t, 0, 5, 3), fault.NotFound},
		{"w", 0, whole, fault.TypeMismatch},
		{"w", 1, numbers(t, 0, 5, 3), fault.ShapeMismatch},
		{"w", -1, numbers(t, 0, 1, 3), fault.ShapeMismatch},
		{"w", 0, numbers(t, 0, 5, 4), fault.ShapeMismatch},
		{"w", 0, numbers(t, 0, 15), fault.ShapeMismatch},
	} {
		if err := c.Load(t.Context(), test.variable, test.first, test.into); !errors.Is(err, test.kind) {
			t.Errorf("%s from row %d into %v: %v, want %v", test.variable, test.first, test.into.Dims(), err, test.kind)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Load(ctx, "w", 0, numbers(t, 0, 5, 3)); !errors.Is(err, fault.Canceled) {
		t.Errorf("a load that is cancelled ends with %v", err)
	}
}

// A byte that has changed is found, where only rows beside it are asked for, too. So is a shard that is too short.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	name := save(t, s, "digits-1", 100)
	path := filepath.Join(dir, name, "shard-1")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Read(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(good) + 1 {
		bad := slices.Clone(good)
		if at < len(good) {
			bad[at] ^= 4
		} else {
			bad = bad[:at-1]
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Verify(t.Context()); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "; use an older checkpoint") {
			t.Errorf("byte %d: Verify says %v", at, err)
		}
		last, n := numbers(t, 0, 1, 3), numbers(t, 0)
		err := errors.Join(c.Load(t.Context(), "w", 4, last), c.Load(t.Context(), "n", 0, n))
		if inPieces := at >= 4; inPieces != errors.Is(err, fault.Corrupt) || inPieces && !strings.Contains(err.Error(), "; use an older checkpoint") { // the first 4 bytes are a copy of lr that nobody reads
			t.Errorf("byte %d: Load says %v", at, err)
		}
	}
}

// A checkpoint is there when its manifest is, and the newest is found.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), dir); !errors.Is(err, fault.NotFound) || !strings.Contains(err.Error(), "no checkpoint, want a folder") {
		t.Errorf("an empty folder has %v", err)
	}
	old, newer := save(t, s, "digits-1", 100), save(t, s, "digits-1", 2000)
	if _, err := s.WriteShard(t.Context(), NewName("digits-1", 3000), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{dir: newer, dir + "@100": old, dir + "@" + old: old, "file://" + dir: newer} {
		c, err := Find(t.Context(), address)
		if err != nil || c.Name != want {
			t.Errorf("%s is %v, %v, want %s", address, c, err, want)
			continue
		}
		again, err := Find(t.Context(), c.Address())
		if err != nil || again.Name != want {
			t.Errorf("%s is %v, %v", c.Address(), again, err)
		}
	}
	for _, address := range []string{dir + "@300", dir + "@3000", dir + "@" + NewName("digits-1", 100)} {
		if _, err := Find(t.Context(), address); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"", "gs://", "nothing://x", "file://host/x"} {
		if _, err := Find(t.Context(), address); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// A store with several runs has one last checkpoint if each run goes on with another but one. Else whoever wants one has to say which, and is told how.
func TestFindOfSeveralRuns(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(run string, steps uint64, origins ...string) string {
		t.Helper()
		name := NewName(run, steps)
		m := manifest(t, s, name, steps)
		m.Origins, m.CreatedMs = origins, int64(steps)
		if err := s.Publish(t.Context(), name, m); err != nil {
			t.Fatal(err)
		}
		return name
	}
	is := func(which, want string) {
		t.Helper()
		if c, err := Find(t.Context(), dir+which); err != nil || c.Name != want {
			t.Errorf("%q is %v, %v, want %s", which, c, err, want)
		}
	}
	first, same := write("digits-aaaaaaaa", 900), write("digits-aaaaaaaa", 500)
	resumed := write("digits-bbbbbbbb", 600, "digits-gone", "digits-aaaaaaaa")
	is("", resumed)
	is("@digits", resumed)
	is("@digits-aaaaaaaa", first)
	is("@00000000000000000500", same)
	other := write("other-cccccccc", 500)
	for _, which := range []string{"", "@500"} {
		_, err := Find(t.Context(), dir+which)
		for _, says := range []string{"checkpoints of 2 runs", dir + "@other-cccccccc (500 steps"} {
			if !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says) {
				t.Errorf("%q: %v, want something of %q", which, err, says)
			}
		}
	}
	is("@digits", resumed)
	is("@other", other)
	is("@"+other, other)
}

// An address of a checkpoint is told from paths of other things.
func TestIsAddress(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "sto@re")
	s, err := Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	name := save(t, s, "digits-1", 100)
	if err := os.WriteFile(filepath.Join(dir, "model@1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{store: true, store + "@100": true, store + "@7": true, "s3://bucket/x": true, dir: false, dir + "@100": false,
		filepath.Join(dir, "model@1"): false, filepath.Join(dir, "none"): false, filepath.Join(dir, "none@1"): false, store + "@" + name: true, filepath.Join(store, name): true, filepath.Join(dir, name): false} {
		if IsAddress(address) != want {
			t.Errorf("%s: %t", address, !want)
		}
	}
}

// The path of a checkpoint is its address, as that of its store with its name is.
func TestThePathOfACheckpointIsAnAddress(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	older, newer := save(t, s, "digits-1", 100), save(t, s, "digits-1", 200)
	for _, name := range []string{older, newer} {
		for _, address := range []string{dir + "@" + name, dir + "/" + name, dir + "/" + name + "/", "file://" + dir + "/" + name} {
			if c, err := Find(t.Context(), address); err != nil || c.Name != name {
				t.Errorf("%s: %v, %v", address, c, err)
			}
			if store := StoreOf(address); strings.TrimPrefix(store, "file://") != dir {
				t.Errorf("%s is of the store %s, not %s", address, store, dir)
			}
		}
	}
	t.Chdir(dir)
	if c, err := Find(t.Context(), older); err != nil || c.Name != older {
		t.Errorf("in the store: %v, %v", c, err)
	}
	if dir, _ := split("/" + older); dir != "/" {
		t.Errorf("at the root: %q", dir)
	}
}

// A manifest is of no use in another place.
func TestCopiedManifest(t *testing.T) {
	for kind, s := range stores(t) {
		from, to := save(t, s, "digits-1", 100), save(t, s, "digits-1", 200)
		r, err := s.objects.open(t.Context(), from+"/"+manifestName, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		err = s.objects.create(t.Context(), to+"/"+manifestName, func(w io.Writer) error { _, err := w.Write(b); return err })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(t.Context(), to); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), from) {
			t.Errorf("%s: %v", kind, err)
		}
		if _, err := s.Read(t.Context(), from); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// What a run that is dead has not completed goes with the next checkpoint of any run, and when a user says so.
func TestIncompleteOfOthers(t *testing.T) {
	s := stores(t)["folder"]
	dir := s.objects.(*folder).dir
	dead, empty, begun, whole := NewName("dead-1", 10), NewName("dead-2", 20), NewName("lives-1", 30), save(t, s, "dead-1", 5)
	for _, name := range []string{dead, begun} {
		if _, err := s.WriteShard(t.Context(), name, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, empty), 0o755); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-Dead - time.Minute)
	for _, path := range []string{dead + "/shard-0", empty, whole + "/manifest", whole + "/shard-0", whole + "/shard-1"} {
		if err := os.Chtimes(filepath.Join(dir, path), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if removed, err := s.RemoveIncomplete(t.Context(), 2*Dead); err != nil || len(removed) > 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if err := s.Prune(t.Context(), "digits-1", 2); err != nil {
		t.Fatal(err)
	}
	expect(t, s, begun, whole)
	if removed, err := s.RemoveIncomplete(t.Context(), 0); err != nil || !slices.Equal(removed, []string{begun}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	expect(t, s, whole)
}

// Prune leaves the newest of a run, and nothing that nobody will complete. Remove leaves what a job may be writing.
func TestPrune(t *testing.T) {
	for kind, s := range stores(t) {
		var all []string
		for steps := uint64(1); steps <= 4; steps++ {
			all = append(all, save(t, s, "digits-1", 100*steps))
		}
		other, begun := save(t, s, "digits-2", 50), NewName("digits-1", 500)
		if _, err := s.WriteShard(t.Context(), begun, 0, nil); err != nil {
			t.Fatal(err)
		}
		removed, err := s.Remove(t.Context(), "digits-1", 3)
		if err != nil || !slices.Equal(removed, all[:1]) {
			t.Errorf("%s: removed %v, %v", kind, removed, err)
		}
		expect(t, s, begun, all[3], all[2], all[1], other)
		if err := s.Prune(t.Context(), "digits-1", 2); err != nil {
			t.Fatal(kind, err)
		}
		expect(t, s, all[3], all[2], other)
	}
}

// A checkpoint that is damaged does not count: the newest that a job can go on from stays.
func TestPruneKeepsWholeOnes(t *testing.T) {
	damage := map[string]func(s *Store, name string) error{
		"no manifest": func(s *Store, name string) error { return s.objects.create(t.Context(), name+"/"+manifestName, empty) },
		"a shard is missing": func(s *Store, name string) error {
			return s.objects.remove(t.Context(), name, []string{"shard-0"})
		},
		"a shard is cut": func(s *Store, name string) error { return s.objects.create(t.Context(), name+"/shard-0", empty) },
	}
	for kind, s := range stores(t) {
		for i, how := range slices.Sorted(maps.Keys(damage)) {
			run := fmt.Sprintf("digits-%d", i)
			oldest, good, bad := save(t, s, run, 100), save(t, s, run, 200), save(t, s, run, 300)
			if err := damage[how](s, bad); err != nil {
				t.Fatal(kind, how, err)
			}
			removed, err := s.Remove(t.Context(), run, 1)
			if err != nil || !slices.Equal(removed, []string{oldest}) {
				t.Errorf("%s, %s: removed %v, %v; want %s, and %s to stay", kind, how, removed, err, oldest, good)
			}
		}
	}
}

func empty(io.Writer) error { return nil }

// expect checks the list of a store.
func expect(t *testing.T, s *Store, want ...string) {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("the store has %v, want %v", names, want)
	}
}

// What fails while it is written is not there, and neither is a temporary file.
func TestWriteFails(t *testing.T) {
	why := errors.New("disk full")
	for kind, s := range stores(t) {
		name := NewName("digits-1", 1)
		err := s.objects.create(t.Context(), name+"/shard-0", func(w io.Writer) error {
			if _, err := w.Write([]byte("part")); err != nil {
				return err
			}
			return why
		})
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", kind, err)
		}
		list, err := s.objects.list(t.Context())
		if err != nil || len(list) > 1 || len(list) == 1 && list[0].name != name+"/" {
			t.Errorf("%s: the store has %v, %v", kind, list, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.WriteShard(ctx, name, 0, []Piece{{"w", []int64{1}, 0, 1, numbers(t, 0, 1), false, false, nil, 0}}); !errors.Is(err, fault.Canceled) {
			t.Errorf("%s: a cancelled write ends with %v", kind, err)
		}
	}
}

// An exported checkpoint is a directory of variables that a program loads, with its progress.
func TestExport(t *testing.T) {
	s := stores(t)["folder"]
	c, err := s.Read(t.Context(), save(t, s, "digits-1", 100))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := c.Export(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	p := program.New()
	p.Global().EnsureVar(program.Var{Name: "w", Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{5, 3}, Persistable: true})
	scope := executor.NewScope()
	if err := executor.LoadPersistables(scope, dir, p); err != nil {
		t.Fatal(err)
	}
	if w, _ := scope.Find("w"); !slices.Equal(w.Float32s(), numbers(t, 100, 5, 3).Float32s()) {
		t.Errorf("w is %v", w)
	}
	if progress, ok, err := executor.ReadProgress(dir); err != nil || !ok || progress != c.Progress() {
		t.Errorf("the progress is %+v, %v, %v", progress, ok, err)
	}
}

// A manifest that was not written by this package, or does not make sense, is refused before anything is read of what it names.
func TestManifest(t *testing.T) {
	s := stores(t)["bucket"]
	good := manifest(t, s, NewName("digits-1", 100), 100)
	good.Version = version
	b, err := encodeManifest(good)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decodeManifest(b); err != nil || !proto.Equal(m, good) {
		t.Fatalf("%v, %v", m, err)
	}
	for at := range b {
		bad := slices.Clone(b)
		bad[at] ^= 1
		if _, err := decodeManifest(bad); !errors.Is(err, fault.Corrupt) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if _, err := decodeManifest(b[:at]); !errors.Is(err, fault.Corrupt) {
			t.Fatalf("%d bytes: %v", at, err)
		}
	}
	for what, change := range map[string]func(m *state.Checkpoint){
		"a missing row":          func(m *state.Checkpoint) { m.Shards[1].Pieces[1].FirstRow = 1 },
		"a shard that is away":   func(m *state.Checkpoint) { m.Shards = m.Shards[:1] },
		"a row twice":            func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Variable = "lr" },
		"other dims":             func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Dims = []int64{5, 4} },
		"other types":            func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Dtype = int32(tensor.Int32) },
		"no type":                func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Dtype = 99 },
		"a negative row":         func(m *state.Checkpoint) { m.Shards[0].Pieces[0].FirstRow = -1 },
		"a negative dim":         func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Dims = []int64{-5, -3} },
		"dims that overflow":     func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Dims = []int64{1 << 40, 1 << 40} },
		"bytes that overflow":    func(m *state.Checkpoint) { m.Shards[0].Pieces[0].Bytes = 1 << 62 },
		"a shard that is longer": func(m *state.Checkpoint) { m.Shards[0].Bytes++ },
		"a shard of another":     func(m *state.Checkpoint) { m.Shards[0].Name = "../shard-0" },
		"a shard twice":          func(m *state.Checkpoint) { m.Shards[1].Name = "shard-0" },
		"a shard without a sum":  func(m *state.Checkpoint) { m.Shards[0].Sha256 = nil },
		"sums of odd parts":      func(m *state.Checkpoint) { m.Shards[0].Part = 512 },
		"a piece elsewhere":      func(m *state.Checkpoint) { m.Shards[0].Pieces[1].Offset = 0 },
		"no name":                func(m *state.Checkpoint) { m.Shards[1].Pieces[2].Variable = "" },
		"a name of elsewhere":    func(m *state.Checkpoint) { m.Shards[1].Pieces[2].Variable = "../../x" },
		"no progress":            func(m *state.Checkpoint) { m.Progress = nil },
		"a pass without reader":  func(m *state.Checkpoint) { m.Progress.Reader = "" },
	} {
		bad := proto.CloneOf(good)
		change(bad)
		if _, err := encodeManifest(bad); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	later := proto.CloneOf(good)
	later.Version++
	if b, err = encodeManifest(later); err != nil {
		t.Fatal(err)
	}
	if _, err := decodeManifest(b); !errors.Is(err, fault.Unsupported) {
		t.Errorf("a later version: %v", err)
	}
	sealed := append([]byte(magic), 0xff, 0xff)
	sum := sha256.Sum256(sealed)
	if _, err := decodeManifest(append(sealed, sum[:]...)); !errors.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "got bytes that are no manifest, want") {
		t.Errorf("bytes of something else with their sum: %v", err)
	}
	if _, err := s.Read(t.Context(), "../x"); !errors.Is(err, fault.NotFound) {
		t.Errorf("a name that leads out: %v", err)
	}
}

// FuzzManifest checks that no bytes make the decoder panic, and that what it takes it writes again.
func FuzzManifest(f *testing.F) {
	m := &state.Checkpoint{Version: version, Progress: &job.Progress{Steps: 3}, Shards: []*job.Shard{{Name: "shard-0", Bytes: 4, Sha256: make([]byte, 32),
		Pieces: []*job.Piece{{Variable: "w", Dtype: int32(tensor.Float32), Dims: []int64{1}, Rows: 1, Bytes: 4}}}}}
	b, err := encodeManifest(m)
	if err != nil {
		f.Fatal(err)
	}
	body := b[len(magic) : len(b)-32]
	f.Add(body)
	f.Add(body[:len(body)-3])
	m.Shards[0].Part = partBytes
	if b, err = encodeManifest(m); err != nil {
		f.Fatal(err)
	}
	f.Add(b[len(magic) : len(b)-32])
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &state.Checkpoint{}
		if proto.Unmarshal(body, m) != nil || checkManifest(m) != nil {
			return
		}
		m.Version = version
		b, err := encodeManifest(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeManifest(b); err != nil {
			t.Fatal(err)
		}
	})
}

// A checkpoint that was discarded is incomplete, and goes with the next ones.
func TestDiscard(t *testing.T) {
	for kind, s := range stores(t) {
		save(t, s, "digits-1", 100)
		name := save(t, s, "digits-1", 200)
		list, err := s.List(t.Context())
		if err != nil {
			t.Fatal(kind, err)
		}
		if err := s.Discard(t.Context(), list[0]); err != nil {
			t.Fatal(kind, err)
		}
		list, err = s.List(t.Context())
		if err != nil || len(list) != 2 || list[0].Name != name || list[0].Complete || !list[1].Complete {
			t.Errorf("%s: the store has %v, %v", kind, list, err)
		}
	}
}
