package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/crc32c"
	"github.com/edl-go/edl/internal/shortform"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// An Entry is a checkpoint in a list.
type Entry struct {
	Name     string
	Run      string    // the job that has written it, with what tells it from other jobs of its name
	Steps    uint64    // that were trained
	Complete bool      // it has a manifest
	Changed  time.Time // when the last of its objects was written

	objects []string
}

// List returns the checkpoints in the store, those of most steps first, with those that nobody has completed.
func (s *Store) List(ctx context.Context) ([]Entry, error) {
	objects, err := s.objects.list(ctx)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, object := range objects {
		dir, base := path.Split(object.name)
		name := strings.TrimSuffix(dir, "/")
		if len(list) == 0 || list[len(list)-1].Name != name {
			parts := names.FindStringSubmatch(name)
			if parts == nil {
				continue
			}
			steps, err := strconv.ParseUint(parts[2], 10, 64)
			if err != nil {
				continue
			}
			list = append(list, Entry{Name: name, Run: parts[1], Steps: steps})
		}
		e := &list[len(list)-1]
		if base != "" {
			e.objects = append(e.objects, base)
		}
		if object.changed.After(e.Changed) {
			e.Changed = object.changed
		}
		e.Complete = e.Complete || base == manifestName
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Steps, a.Steps), cmp.Compare(a.Name, b.Name)) })
	return list, nil
}

// A Checkpoint is a complete one that is read. It is safe for concurrent use.
type Checkpoint struct {
	Name     string
	Manifest *state.Checkpoint // not to be changed

	store   *Store
	pieces  map[string][]placed // by variable, in the order of rows
	changes map[string][]placed // to them
}

type placed struct {
	*job.Piece
	object string
}

// Find reads the manifest of the complete checkpoint that an address names:
//
//	STORE          the one with most steps of the last run in the store
//	STORE@STEPS    the one with so many steps
//	STORE@RUN      the one with most steps of a run, or of a job
//	STORE@NAME     that one
//	STORE/NAME     the same, as a shell completes it
//
// A run that another one has gone on with is not the last. Where that leaves several, the error names them. The caller closes the store.
func Find(ctx context.Context, address string) (*Checkpoint, error) {
	where, which := split(address)
	s, err := Open(ctx, where)
	if err != nil {
		return nil, err
	}
	c, err := s.find(ctx, which)
	if errors.Is(err, fault.NotFound) { // a job may have removed what was just listed
		c, err = s.find(ctx, which)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return c, nil
}

// IsAddress reports whether an address is one of a checkpoint and not a path of something else: a URL, or a folder with checkpoints.
func IsAddress(address string) bool {
	if strings.Contains(address, "://") {
		return true
	}
	where, which := split(address)
	if _, err := os.Stat(address); err == nil && !isName(which) {
		where = address // whatever its name has
	} else if which == "" {
		return false
	}
	entries, err := os.ReadDir(where)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() && isName(e.Name()) })
}

// StoreOf is the store of an address, as Find takes it.
func StoreOf(address string) string {
	where, _ := split(address)
	return where
}

// split separates what stands behind the last @ from an address, or the name of a checkpoint that is the last part of its path.
func split(address string) (where, which string) {
	if dir, base := path.Split(strings.TrimRight(address, "/")); isName(base) {
		return cmp.Or(strings.TrimRight(dir, "/"), cmp.Or(dir, ".")), base
	}
	at := strings.LastIndexByte(address, '@')
	if at < 0 || strings.ContainsAny(address[at:], "/\\") {
		return address, ""
	}
	return address[:at], address[at+1:]
}

func (s *Store) find(ctx context.Context, which string) (*Checkpoint, error) {
	list, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	steps, notSteps := strconv.ParseUint(which, 10, 64)
	var last []*Checkpoint // of each run
	for _, e := range list {
		job, _ := cutLast(e.Run, "-")
		named := which == "" || which == e.Name || which == e.Run || which == job || notSteps == nil && e.Steps == steps
		if !e.Complete || !named || slices.ContainsFunc(last, func(c *Checkpoint) bool { return c.Run() == e.Run }) {
			continue
		}
		c, err := s.Read(ctx, e.Name)
		if err != nil {
			return nil, err
		}
		last = append(last, c)
	}
	all := last
	last = slices.DeleteFunc(slices.Clone(all), func(c *Checkpoint) bool {
		return slices.ContainsFunc(all, func(o *Checkpoint) bool { return slices.Contains(o.Manifest.Origins, c.Run()) })
	})
	switch {
	case len(last) == 1:
		return last[0], nil
	case len(last) > 1:
		return nil, severalRuns(s.where, last)
	}
	want := "a folder or bucket that a job has written checkpoints to (--checkpoint)"
	var jobs []string // of which there are some
	for _, e := range list {
		if job, _ := cutLast(e.Run, "-"); !slices.Contains(jobs, job) {
			jobs = append(jobs, job)
		}
	}
	if which != "" {
		want = "steps, a run or a name that \"edl checkpoint list\" shows"
		if len(jobs) > 0 {
			want += "; there are some of " + strings.Join(jobs[:min(len(jobs), maxNamed)], ", ")
		}
	}
	return nil, fault.E(fault.NotFound, fault.At(s.where), fault.Got(gotNone(which, len(list))), fault.Want(want), fault.DidYouMean(which, jobs))
}

// cutLast cuts a text before the last separator.
func cutLast(text, separator string) (before, after string) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+len(separator):]
}

// maxNamed bounds the runs that an error names.
const maxNamed = 8

// severalRuns is the error of an address that fits checkpoints of several runs, the newest of which it names first.
func severalRuns(where string, last []*Checkpoint) error {
	slices.SortStableFunc(last, func(a, b *Checkpoint) int { return cmp.Compare(b.Manifest.CreatedMs, a.Manifest.CreatedMs) })
	var names []string
	for _, c := range last[:min(len(last), maxNamed)] {
		names = append(names, fmt.Sprintf("%s@%s (%d steps, %s)", where, c.Run(), c.Manifest.Progress.GetSteps(),
			time.UnixMilli(c.Manifest.CreatedMs).UTC().Format(time.RFC3339)))
	}
	return fault.E(fault.InvalidArgument, fault.At(where), fault.Gotf("checkpoints of %d runs", len(last)), fault.Want("one of "+strings.Join(names, ", ")))
}

func gotNone(which string, n int) string {
	if which != "" {
		return "no complete checkpoint " + fault.Quote(which)
	}
	if n == 0 {
		return "no checkpoint"
	}
	return fmt.Sprintf("no complete checkpoint, %d incomplete ones", n)
}

// Read reads the manifest of a checkpoint.
func (s *Store) Read(ctx context.Context, name string) (*Checkpoint, error) {
	if !isName(name) {
		return nil, fault.E(fault.NotFound, fault.At(s.where), fault.Got("the name "+fault.Quote(name)), fault.Want("that of a checkpoint"))
	}
	r, err := s.objects.open(ctx, name+"/"+manifestName, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, fault.E(fault.Unavailable, fault.At(s.where+"/"+name), fault.Cause(err))
	}
	if len(b) > maxManifest {
		return nil, fault.E(fault.TooLarge, fault.At(s.where+"/"+name), fault.Got("a longer manifest"), fault.Wantf("at most %d bytes", maxManifest))
	}
	m, err := decodeManifest(b)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.At(s.where+"/"+name), fault.Cause(err))
	}
	if m.Name != name {
		return nil, fault.E(fault.Corrupt, fault.At(s.where+"/"+name), fault.Got("the manifest of "+fault.Quote(m.Name)),
			fault.Want("its own: a checkpoint cannot be renamed, nor its manifest copied"))
	}
	c := &Checkpoint{Name: name, Manifest: m, store: s, pieces: map[string][]placed{}, changes: map[string][]placed{}}
	for _, shard := range m.Shards {
		into := c.pieces
		if shard.Changes {
			into = c.changes
		}
		for _, p := range shard.Pieces {
			into[p.Variable] = append(into[p.Variable], placed{p, c.object(shard)})
		}
	}
	for name, list := range c.pieces {
		slices.SortStableFunc(list, func(a, b placed) int { return byRows(a.Piece, b.Piece) })
		if first := list[0]; first.Rows == rowsOf(first.Dims) {
			c.pieces[name] = list[:1] // the others are copies
		}
	}
	return c, nil
}

// Close closes the store.
func (c *Checkpoint) Close() error { return c.store.Close() }

// Address names this checkpoint for Find.
func (c *Checkpoint) Address() string { return c.store.where + "@" + c.Name }

// Run is the run of a job that has written the checkpoint.
func (c *Checkpoint) Run() string { return runOf(c.Name) }

// object is the name of a shard in the store.
func (c *Checkpoint) object(s *job.Shard) string { return cmp.Or(s.Checkpoint, c.Name) + "/" + s.Name }

// BasesOf returns the earlier checkpoints that a manifest has shards of, each once.
func BasesOf(m *state.Checkpoint) (list []string) {
	for _, s := range m.Shards {
		if s.Checkpoint != "" && !slices.Contains(list, s.Checkpoint) {
			list = append(list, s.Checkpoint)
		}
	}
	return list
}

// Progress is where a job goes on with the checkpoint.
func (c *Checkpoint) Progress() executor.Progress { return jobspec.ProgressOf(c.Manifest.Progress) }

// Variables returns the names of all variables, sorted.
func (c *Checkpoint) Variables() []string {
	list := make([]string, 0, len(c.pieces))
	for name := range c.pieces {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// Describe returns type and dims of a variable; ok is false where the checkpoint does not have it.
func (c *Checkpoint) Describe(variable string) (dtype tensor.DType, dims []int64, ok bool) {
	list := c.pieces[variable]
	if len(list) == 0 {
		return 0, nil, false
	}
	return tensor.DType(list[0].Dtype), slices.Clone(list[0].Dims), true
}

// Value reads a whole variable. One of a table that grows takes memory for the rows in use.
func (c *Checkpoint) Value(ctx context.Context, variable string) (*tensor.Tensor, error) {
	dtype, dims, ok := c.Describe(variable)
	if !ok {
		return nil, fault.E(fault.NotFound, fault.At(c.Name), fault.Var(variable), fault.Got("no variable of this name in the checkpoint"),
			fault.Want("one that \"edl checkpoint show\" lists: another program may have trained this state"))
	}
	t, err := tensor.New(dtype, dims...)
	if err != nil {
		return nil, fault.E(fault.KindOf(err), fault.Var(variable), fault.Cause(err))
	}
	if c.pieces[variable][0].Short {
		tensor.SmallPages(t)
	}
	return t, c.Load(ctx, variable, 0, t)
}

// Load reads rows of a variable into a tensor, which has these rows. It checks each piece that it reads.
func (c *Checkpoint) Load(ctx context.Context, variable string, first int64, into *tensor.Tensor) error {
	return c.loadPieces(ctx, variable, slices.Concat(c.pieces[variable], c.changes[variable]), false, first, into)
}

// LoadStriped is Load for rows of the variable in the order of stripes (kernel.Stripes).
func (c *Checkpoint) LoadStriped(ctx context.Context, variable string, first int64, into *tensor.Tensor) error {
	return c.loadPieces(ctx, variable, slices.Concat(c.pieces[variable], c.changes[variable]), true, first, into)
}

// loadPieces puts those rows of pieces of a variable into a tensor that it has.
func (c *Checkpoint) loadPieces(ctx context.Context, variable string, pieces []placed, striped bool, first int64, into *tensor.Tensor) error {
	where := c.store.where + "/" + c.Name
	dtype, dims, ok := c.Describe(variable)
	if !ok {
		return fault.E(fault.NotFound, fault.At(where), fault.Var(variable), fault.Got("no such variable"), fault.Want("one that the checkpoint has"))
	}
	have, rows := into.Dims(), rowsOf(into.Dims())
	if dtype != into.DType() {
		return fault.E(fault.TypeMismatch, fault.At(where), fault.Var(variable), fault.Got(dtype.String()), fault.Want(into.DType().String()))
	}
	if len(have) != len(dims) || len(dims) > 0 && !slices.Equal(have[1:], dims[1:]) || first < 0 || first > rowsOf(dims) || rows > rowsOf(dims)-first {
		return fault.E(fault.ShapeMismatch, fault.At(where), fault.Var(variable), fault.Gotf("dims %v", dims), fault.Wantf("rows %d to %d of %v", first, first+rows, have))
	}
	memory, err := wire.Memory(into)
	if err != nil {
		return err
	}
	stripes := kernel.StripesOf(rowsOf(dims))
	for _, p := range pieces {
		if p.Striped != striped {
			order := stripes.Row
			if striped {
				order = stripes.Position
			}
			if err := c.reorderPiece(ctx, p, order, first, memory); err != nil {
				return err
			}
			continue
		}
		from, to := max(p.FirstRow, first), min(p.FirstRow+p.Rows, first+rows)
		if from >= to {
			continue
		}
		n := rowBytes(p.Piece)
		if err := c.loadPiece(ctx, p, (from-p.FirstRow)*n, memory[(from-first)*n:(to-first)*n]); err != nil {
			return err
		}
	}
	return nil
}

// readBytes is how much is read at once: so a reader sees soon that its context has ended.
const readBytes = 1 << 20

// loadPiece puts what begins at offset in a piece into b. Where much of a piece is zeros, as of a table with room for more rows, memory that was never used is not used
// after it either.
func (c *Checkpoint) loadPiece(ctx context.Context, p placed, offset int64, b []byte) error {
	var room []byte
	if len(b) > readBytes {
		room = make([]byte, readBytes)
	}
	usage := tensor.UsageOf(b)
	return c.readPiece(ctx, p, func(in io.Reader) error {
		_, err := io.CopyN(io.Discard, in, offset)
		at := 0
		for part := range slices.Chunk(b, readBytes) {
			switch {
			case err != nil || ctx.Err() != nil:
			case room == nil:
				_, err = io.ReadFull(in, part)
			default:
				_, err = io.ReadFull(in, room[:len(part)])
				usage.Copy(at, room[:len(part)])
			}
			at += len(part)
		}
		return err
	})
}

// reorderPiece puts those rows of a piece into memory that it has in another order: row r of the piece's order is row order(r) there, and memory begins with row first.
func (c *Checkpoint) reorderPiece(ctx context.Context, p placed, order func(row int64) int64, first int64, memory []byte) error {
	each, next := rowBytes(p.Piece), p.FirstRow
	if each == 0 || p.Rows == 0 {
		return nil
	}
	room := make([]byte, min(p.Rows, max(1, readBytes/each))*each)
	return c.readPiece(ctx, p, func(in io.Reader) error {
		for left := each * p.Rows; left > 0 && ctx.Err() == nil; left -= int64(len(room)) {
			room = room[:min(left, int64(len(room)))]
			if _, err := io.ReadFull(in, room); err != nil {
				return err
			}
			for row := range slices.Chunk(room, int(each)) {
				if at := (order(next) - first) * each; at >= 0 && at < int64(len(memory)) {
					copy(memory[at:], row)
				}
				next++
			}
		}
		return nil
	})
}

// readPiece has the elements of a piece read, and checks its length and its sum. It ends with an error where ctx has ended: what was read is incomplete then.
func (c *Checkpoint) readPiece(ctx context.Context, p placed, read func(in io.Reader) error) error {
	where := c.store.where + "/" + p.object
	r, err := c.store.objects.open(ctx, p.object, p.Offset, p.Bytes)
	if err != nil {
		return err
	}
	defer r.Close()
	in := &summed{from: r}
	var elements io.Reader = in
	if p.Short {
		size := tensor.DType(p.Dtype).Size()
		elements = shortform.NewReader(in, size, rowBytes(p.Piece)*p.Rows/int64(size))
	}
	if err = read(elements); err == nil && ctx.Err() == nil {
		_, err = io.CopyN(io.Discard, in, p.Bytes-in.n)
	}
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return fault.E(fault.Canceled, fault.At(where), fault.Cause(cause))
	case errors.Is(err, fault.Corrupt) && in.crc == p.Crc32C:
		return fault.E(fault.Corrupt, fault.At(where), fault.Var(p.Variable), fault.Cause(err))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fault.E(fault.Corrupt, fault.At(where), fault.Var(p.Variable), fault.Got("fewer bytes"), fault.Wantf("%d from %d on", p.Bytes, p.Offset),
			fault.Hint(useOlder))
	case err != nil && !errors.Is(err, fault.Corrupt):
		return fault.E(fault.Unavailable, fault.At(where), fault.Cause(err))
	case in.crc != p.Crc32C:
		return fault.E(fault.Corrupt, fault.At(where), fault.Var(p.Variable), fault.Got("bytes that have changed: their sum differs"),
			fault.Want("those that edl wrote"), fault.Hint(useOlder))
	}
	return nil
}

// useOlder is what to do about a checkpoint whose bytes are not those that were written.
const useOlder = "use an older checkpoint; \"edl checkpoint verify\" checks all"

// A summed reader sums up what is read.
type summed struct {
	from io.Reader
	n    int64
	crc  uint32
}

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	s.n, s.crc = s.n+int64(n), crc32c.Update(s.crc, p[:n])
	return n, err
}

// Verify reads all shards and checks their lengths and sums.
func (c *Checkpoint) Verify(ctx context.Context) error {
	for _, shard := range c.Manifest.Shards {
		if err := c.verify(ctx, shard); err != nil {
			return err
		}
	}
	return nil
}

func (c *Checkpoint) verify(ctx context.Context, shard *job.Shard) error {
	where := c.store.where + "/" + c.object(shard)
	r, err := c.store.objects.open(ctx, c.object(shard), 0, -1)
	if err != nil {
		return err
	}
	defer r.Close()
	sumOf := wholeSum
	if shard.Part != 0 {
		sumOf = sumOfParts
	}
	n, sum, err := sumOf(ctx, io.LimitReader(r, shard.Bytes+1))
	if err != nil {
		return fault.E(fault.KindOf(err), fault.At(where), fault.Cause(err))
	}
	if n != shard.Bytes || !bytes.Equal(sum, shard.Sha256) {
		return fault.E(fault.Corrupt, fault.At(where), fault.Gotf("%d bytes with the sum %x", n, sum), fault.Wantf("%d bytes with %x", shard.Bytes, shard.Sha256),
			fault.Hint("use an older checkpoint: \"edl checkpoint list\" has the others"))
	}
	return nil
}

// wholeSum is the SHA-256 of what is read.
func wholeSum(ctx context.Context, from io.Reader) (n int64, sum []byte, err error) {
	whole := sha256.New()
	n, err = io.Copy(&bounded{ctx, whole}, from)
	return n, whole.Sum(nil), err
}

// Export writes the state to a directory, as executor.SaveState does: a file for each variable, and the progress. It replaces what an earlier Save has left
// there, whole or not at all. It has one variable in memory at a time.
func (c *Checkpoint) Export(ctx context.Context, dir string) (err error) {
	w, err := executor.NewStateWriter(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if err := w.Begin(); err != nil {
		return err
	}
	for _, name := range c.Variables() {
		t, err := c.Value(ctx, name)
		if err != nil {
			return err
		}
		save := func() error { return w.Save(name, []*tensor.Tensor{t}, true) }
		if c.pieces[name][0].Short {
			save = func() error { return w.SaveShort(name, t, true) }
		}
		if err := save(); err != nil {
			return err
		}
	}
	progress := c.Progress()
	return w.Commit(&progress)
}
