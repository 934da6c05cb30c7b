package pserver

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	_ "gocloud.dev/blob/memblob" // for mem://
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/edl-go/edl/internal/compress"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/checkpoint"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// A changingProgram changes its variables at random: block 1 those of "dense" from end to end, block 2 the rows of "table" and "slot" that "rows" has, block 3 rows
// of "grown", which has room for more, and block 4 "rate". Nothing changes "constant", and what merges is "state".
type changingProgram struct {
	variables map[string]*tensor.Tensor
	form      compress.RowsForm
	random    map[program.BlockIndex]*rand.Rand
}

const (
	frozenRows  = 900
	frozenWidth = 5
)

func newChangingProgram(t *testing.T, seed uint64) *changingProgram {
	p := &changingProgram{variables: map[string]*tensor.Tensor{}, random: map[program.BlockIndex]*rand.Rand{}}
	add := func(name string, dtype tensor.DType, dims ...int64) *tensor.Tensor {
		v, err := tensor.New(dtype, dims...)
		if err != nil {
			t.Fatal(err)
		}
		p.variables[name] = v
		return v
	}
	add("dense", tensor.Float64, 700, 3)
	add("table", tensor.Float32, frozenRows, frozenWidth)
	add("slot", tensor.BFloat16, frozenRows, frozenWidth)
	add("grown", tensor.Float32, 4096, frozenWidth)
	add("rate", tensor.Float32)
	add("constant", tensor.Int64, 33)
	add("state", tensor.Float32, 100)
	p.form, _ = compress.RowsOf(add("rows", tensor.Int32, compress.RowsDims(frozenRows, frozenWidth)...))
	p.bring(rand.New(rand.NewPCG(seed, 0)))
	for block := range program.BlockIndex(6) {
		p.random[block] = rand.New(rand.NewPCG(seed, uint64(block)+1))
	}
	return p
}

// bring makes rows of the next round arrive.
func (p *changingProgram) bring(r *rand.Rand) {
	rows := map[int32]bool{}
	for range r.IntN(60) {
		rows[r.Int32N(frozenRows)] = true
	}
	numbers, _ := p.form.Begin(len(rows))
	numbers = numbers[:0]
	for row := range rows {
		numbers = append(numbers, row)
	}
	slices.Sort(numbers)
}

func (p *changingProgram) Variable(name string) (*tensor.Tensor, bool) {
	v, ok := p.variables[name]
	return v, ok
}

func (p *changingProgram) Names(block program.BlockIndex) (map[string]bool, error) {
	names := map[program.BlockIndex][]string{1: {"dense", "rate"}, 2: {"table", "slot", "rows", "rate"}, 3: {"grown"}, 4: {"rate"}}
	all := map[string]bool{}
	for _, name := range names[block] {
		all[name] = true
	}
	return all, nil
}

func (p *changingProgram) ChangedByRows() map[string]string {
	return map[string]string{"table": "rows", "slot": "rows"}
}

func (p *changingProgram) RunBlock(_ context.Context, block program.BlockIndex, _ ops.Step) error {
	r := p.random[block]
	switch block {
	case 1:
		for i := range p.variables["dense"].Float64s() {
			p.variables["dense"].Float64s()[i] += r.Float64()
		}
	case 2:
		numbers, _, err := p.form.Used()
		if err != nil {
			return err
		}
		for _, row := range numbers {
			for i := range frozenWidth {
				at := int(row)*frozenWidth + i
				p.variables["table"].Float32s()[at] = r.Float32()
				tensor.Data[uint16](p.variables["slot"])[at] = uint16(r.Uint32())
			}
		}
	case 3:
		for range 9 {
			p.variables["grown"].Float32s()[r.IntN(1000)] = r.Float32()
		}
	case 4:
		p.variables["rate"].Float32s()[0] = r.Float32()
	}
	return nil
}

// A slowSource gives some bytes for each token.
type slowSource struct {
	checkpoint.Source
	tokens <-chan struct{}
}

func (s slowSource) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) && err == nil {
		<-s.tokens // or there are no more updates
		var got int
		got, err = s.Source.ReadAt(p[n:min(len(p), n+500)], offset+int64(n))
		n += got
	}
	return n, err
}

// What is written of a cut while updates go on has the bytes that copies at the cut have: whole parts, and what has changed since one, whether blocks run one after
// the other, as in a round, or side by side, as those of an async job do.
func TestCutHasTheBytesOfACopy(t *testing.T) {
	store, err := checkpoint.Open(t.Context(), "mem://below") // a folder would wait for the disk
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rapid.Check(t, func(r *rapid.T) {
		p := newChangingProgram(t, rapid.Uint64().Draw(r, "seed"))
		service := &comm.Service{Optimize: []program.BlockIndex{1, 2, 3}, LRDecay: 4, Global: comm.NoBlock}
		for _, name := range []string{"dense", "table", "slot", "grown", "rate", "constant", "state"} {
			slice := comm.Slice{Name: name, Origin: name, Rows: 1, TotalRows: 1}
			if dims := p.variables[name].Dims(); len(dims) > 0 {
				slice.Rows, slice.TotalRows = dims[0], dims[0]
			}
			if service.Slices = append(service.Slices, slice); name == "grown" {
				slice.Table = "grown"
				service.Slices[len(service.Slices)-1] = slice
				service.Tables = append(service.Tables, comm.GrownTable{Slice: slice})
			}
		}
		v := &values{BlockRunner: p}
		if v.freezer, err = newFreezer(service, v, newSums(service, v)); err != nil {
			r.Fatal(err)
		}
		v.freezer.portion = rapid.SampledFrom([]int{512, 3000, portionBytes}).Draw(r, "portion")
		cs := newCuts(service, v.freezer)
		update := func(block program.BlockIndex) {
			if block == 5 {
				v.freezer.changing("state")
				for i := range p.variables["state"].Float32s() {
					p.variables["state"].Float32s()[i]++
				}
			} else if err := v.RunBlock(t.Context(), block, ops.Step{}); err != nil {
				t.Error(err)
			}
		}
		blocks := rapid.SampledFrom([][]program.BlockIndex{{1, 2, 3, 4, 5}, {2}, {2, 3, 5}, {4}, nil})
		checkCuts(t, r, store, cs, blocks, update, func() { p.bring(p.random[0]) })
	})
}

// checkCuts compares cuts with copies of them while updates go on. Each round, which brings something new, updates by some blocks.
func checkCuts(t *testing.T, r *rapid.T, store *checkpoint.Store, cs *cuts, blocks *rapid.Generator[[]program.BlockIndex], update func(program.BlockIndex), bring func()) {
	base := []checkpoint.Piece{} // copies of the last part that was written whole
	for range 3 {
		for range rapid.IntRange(0, 2).Draw(r, "rounds before") {
			for _, block := range blocks.Draw(r, "blocks before") {
				update(block)
			}
		}
		var group sync.WaitGroup
		if rapid.Bool().Draw(r, "prepared") {
			cs.freezer.prepare(&group, true)
		}
		frozen, err := cs.freezer.freeze()
		if err != nil {
			r.Fatal(err)
		}
		want := copiesOf(r, cs, frozen)
		tokens := make(chan struct{})
		rounds, together, during := rapid.IntRange(0, 30).Draw(r, "rounds"), rapid.Bool().Draw(r, "side by side"), blocks.Draw(r, "blocks")
		group.Go(func() {
			defer close(tokens)
			for range rounds {
				var running sync.WaitGroup
				for _, block := range during {
					if together {
						running.Go(func() { update(block) })
					} else {
						update(block)
					}
				}
				running.Wait()
				bring()
				select {
				case tokens <- struct{}{}:
				default: // nobody reads now
				}
			}
		})
		if rapid.Bool().Draw(r, "ahead") {
			group.Go(func() { cs.freezer.ahead(t.Context(), frozen) })
		}
		got, wanted := writeSlowly(r, store, cs, frozen, want, &base, tokens)
		group.Wait()
		cs.freezer.thaw(frozen)
		if !proto.Equal(got, wanted) {
			r.Fatalf("the cut is %v, its copy %v", got, wanted)
		}
	}
}

// copiesOf lists copies of the slices of a cut.
func copiesOf(r *rapid.T, cs *cuts, frozen *frozenCut) []checkpoint.Piece {
	pieces, _ := cs.piecesOf(frozen)
	for i := range pieces {
		pieces[i].Value, pieces[i].From = frozen.tensors[i].Clone(), nil
	}
	return pieces
}

// writeSlowly writes a cut as a server does, or what of it has changed, and the same of copies.
func writeSlowly(r *rapid.T, store *checkpoint.Store, cs *cuts, frozen *frozenCut, copies []checkpoint.Piece, base *[]checkpoint.Piece, tokens <-chan struct{}) (got, want *job.Shard) {
	pieces, read := cs.piecesOf(frozen)
	var stay []string
	if rapid.Bool().Draw(r, "only changes") {
		stay = []string{cs.since.name}
	}
	changes, only, err := cs.since.changes(context.Background(), pieces, frozen, stay)
	if err != nil {
		r.Fatal(err)
	}
	if only {
		copies, pieces = changesOf(r, *base, changes, copies), changes
	} else {
		*base = copies
	}
	for i := range pieces {
		pieces[i].From = slowSource{pieces[i].From, tokens}
	}
	name := checkpoint.NewName("job", 1)
	if got, err = store.WriteShard(context.Background(), name, 0, pieces); err != nil {
		r.Fatal(err)
	}
	if want, err = store.WriteShard(context.Background(), checkpoint.NewName("job", 1), 0, copies); err != nil {
		r.Fatal(err)
	}
	if !only {
		cs.since.begin(name, got, read)
		checkSums(r, copies, cs.since.sums)
	}
	return got, want
}

// changesOf returns the rows of changes as copies have them. The other rows are those of the base.
func changesOf(r *rapid.T, base, changes, copies []checkpoint.Piece) []checkpoint.Piece {
	rowsOf := func(of []checkpoint.Piece, p checkpoint.Piece) *tensor.Tensor {
		whole := of[slices.IndexFunc(of, func(c checkpoint.Piece) bool { return c.Variable == p.Variable })].Value
		if len(p.Dims) == 0 {
			return whole
		}
		rows, err := whole.Rows(p.FirstRow, p.FirstRow+p.Rows)
		if err != nil {
			r.Fatal(err)
		}
		return rows
	}
	base = slices.Clone(base)
	for i, p := range base {
		base[i].Value = p.Value.Clone()
	}
	list := slices.Clone(changes)
	for i, p := range list {
		list[i].Value, list[i].From = rowsOf(copies, p), nil
		if err := rowsOf(base, p).CopyFrom(list[i].Value); err != nil {
			r.Fatal(err)
		}
	}
	for i, p := range base {
		all, err := wire.Memory(p.Value)
		now, wrong := wire.Memory(copies[i].Value)
		if err != nil || wrong != nil || !bytes.Equal(all, now) {
			r.Fatalf("rows of %s have changed that are not among the changes", p.Variable)
		}
	}
	return list
}

// checkSums compares the sums of a base with those of copies.
func checkSums(r *rapid.T, copies []checkpoint.Piece, sums [][]uint64) {
	for i, p := range copies {
		memory, err := wire.Memory(p.Value)
		if err != nil {
			r.Fatal(err)
		}
		var want []uint64
		each, _ := blocksOf(p.Value)
		for part := range slices.Chunk(memory, max(1, each)) {
			want = append(want, sumOf(part))
		}
		if !slices.Equal(sums[i], want) {
			r.Fatalf("the sums of the %d blocks of %s differ from those of its copy", len(want), p.Variable)
		}
	}
}

// What is made ready for a cut is used once, and goes when no cut comes.
func TestPrepare(t *testing.T) {
	p := newChangingProgram(t, 1)
	service := &comm.Service{Optimize: []program.BlockIndex{1}, Global: comm.NoBlock, LRDecay: comm.NoBlock,
		Slices: []comm.Slice{{Name: "dense", Rows: 700}, {Name: "table", Rows: frozenRows}, {Name: "constant", Rows: 33}}}
	v := &values{BlockRunner: p}
	f, err := newFreezer(service, v, newSums(service, v))
	if err != nil {
		t.Fatal(err)
	}
	f.portion = 64
	var group sync.WaitGroup
	f.prepare(&group, true)
	first := f.ready
	f.prepare(&group, true)
	if f.ready != first || first.areas[0] == nil || first.areas[1] != nil || first.areas[2] != nil {
		t.Fatalf("ready for a cut: %v, then %v, want what is for the slice that changes from end to end", first, f.ready)
	}
	cut, err := f.freeze()
	if err != nil || cut.all[0].area != first.areas[0] || f.ready != nil {
		t.Fatalf("the cut uses %v, %v is left, %v", cut.all[0].area, f.ready, err)
	}
	if f.prepare(&group, true); f.ready != nil {
		t.Error("memory for another cut while one is written")
	}
	f.thaw(cut)
	f.prepare(&group, true)
	unused := f.ready
	f.prepare(&group, false)
	group.Wait()
	if f.ready != nil || unused.areas[0].Bytes() != nil {
		t.Error("memory for a cut that does not come is kept")
	}
}

// A cut gives its memory back, and what a writer reads after that fails.
func TestThaw(t *testing.T) {
	memory := bytes.Repeat([]byte{7}, 1<<20)
	f := freezeSlice(memory, 1, false, 4096)
	f.keepAll()
	if f.area == nil {
		t.Fatal("nothing was kept")
	}
	f.close()
	if _, err := f.ReadAt(make([]byte, 1), 0); err == nil || f.area != nil {
		t.Errorf("%v, and the area %v is there", err, f.area)
	}
	f.keepAll()
	if f.area != nil {
		t.Error("a cut that has ended takes memory")
	}
}

// Nobody reads a slice for a cut that has ended while an update changes it, though the cut ends before all is kept. The race detector sees it.
func TestThawEndsAllReads(t *testing.T) {
	p := newChangingProgram(t, 1)
	service := &comm.Service{Optimize: []program.BlockIndex{1}, Global: comm.NoBlock, LRDecay: comm.NoBlock,
		Slices: []comm.Slice{{Name: "dense", Origin: "dense", Rows: 700, TotalRows: 700}}}
	v := &values{BlockRunner: p}
	var err error
	if v.freezer, err = newFreezer(service, v, newSums(service, v)); err != nil {
		t.Fatal(err)
	}
	v.freezer.portion = 512
	for range 100 {
		cut, err := v.freezer.freeze()
		if err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { v.freezer.ahead(t.Context(), cut) })
		group.Go(func() { v.freezer.thaw(cut) })
		for v.freezer.cut.Load() != nil {
			runtime.Gosched()
		}
		if err := v.RunBlock(t.Context(), 1, ops.Step{}); err != nil {
			t.Error(err)
		}
		group.Wait()
	}
}
