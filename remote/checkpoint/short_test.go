package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/state"
	"github.com/edl-go/edl/tensor"
)

// Pieces of a table that grows have the rows in use, whatever rows of it are read, also with changes over them; so has what is exported of it. A checkpoint that has
// all rows is read, too.
func TestATableThatGrowsTakesItsRowsInUse(t *testing.T) {
	const rows, width, half = 1 << 16, 16, 1 << 15
	table := numbers(t, 0, rows, width)
	clear(table.Float32s())
	index, err := tensor.New(tensor.Int32, rows)
	if err != nil {
		t.Fatal(err)
	}
	for row := range 100 {
		for _, at := range []int{row, half + row} {
			table.Float32s()[at*width+row%width] = float32(row + 1)
			index.Int32s()[(at*7919)%rows] = int32(at + 1)
		}
	}
	changed := numbers(t, 7, 3, width)
	want := table.Clone()
	copy(want.Float32s()[(half+1)*width:], changed.Float32s())
	for name, s := range stores(t) {
		for _, short := range []bool{true, false} {
			ctx, m, k := t.Context(), &state.Checkpoint{Job: "clicks", Progress: &job.Progress{Reader: "abc"}}, NewName("clicks-1", 1)
			for i := range 2 {
				part, err := table.Rows(int64(i)*half, int64(i+1)*half)
				of, err2 := index.Rows(int64(i)*half, int64(i+1)*half)
				if err = errors.Join(err, err2); err != nil {
					t.Fatal(err)
				}
				shard, err := s.WriteShard(ctx, k, i, []Piece{{"w", []int64{rows, width}, int64(i) * half, half, part, false, short, nil, 0},
					{"w.index", []int64{rows}, int64(i) * half, half, of, false, short, nil, 0}})
				if err != nil {
					t.Fatal(err)
				}
				if most := int64(100 * (4 + 4 + 2 + 6)); short && shard.Bytes > most {
					t.Errorf("%d bytes for 100 rows with one element, and their index, want at most %d", shard.Bytes, most)
				}
				m.Shards = append(m.Shards, shard)
			}
			last, err := s.WriteShard(ctx, k, 2, []Piece{{"w", []int64{rows, width}, half + 1, 3, changed, false, false, nil, 0}})
			if err != nil {
				t.Fatal(err)
			}
			last.Changes = true
			m.Shards = append(m.Shards, last)
			if err := s.Publish(ctx, k, m); err != nil {
				t.Fatal(err)
			}
			if m.Version != version {
				t.Errorf("the manifest is of version %d, want %d", m.Version, version)
			}
			c, err := s.Read(ctx, k)
			if err != nil {
				t.Fatal(err)
			}
			for _, cut := range [][2]int64{{0, rows}, {3, 50}, {half - 7, half + 9}, {200, 300}} {
				got := numbers(t, 5, cut[1]-cut[0], width) // what was there is gone
				if err := c.Load(ctx, "w", cut[0], got); err != nil || !slices.Equal(got.Float32s(), want.Float32s()[cut[0]*width:cut[1]*width]) {
					t.Errorf("%s, short %v: rows %v differ, %v", name, short, cut, err)
				}
			}
			if err := c.Verify(ctx); err != nil {
				t.Error(err)
			}
			dir := t.TempDir()
			if err := c.Export(ctx, dir); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(filepath.Join(dir, "w")); err != nil || (info.Size() < 10000) != short {
				t.Errorf("%s, short %v: the export of w: %v, %v", name, short, info.Size(), err)
			}
			files, err := executor.NewStorage(dir)
			if err != nil {
				t.Fatal(err)
			}
			got, gotIndex := numbers(t, 5, rows, width), index.Clone()
			clear(gotIndex.Int32s())
			if err := errors.Join(files.Load("w", []*tensor.Tensor{got}), files.Load("w.index", []*tensor.Tensor{gotIndex}), files.Close()); err != nil {
				t.Fatal(err)
			}
			if !testkit.Same(got, want) || !testkit.Same(gotIndex, index) {
				t.Errorf("%s, short %v: what was exported differs", name, short)
			}
		}
	}
}

// A manifest that lies about a piece in short form is refused before anything is read, and damaged bytes are found.
func TestHostileShortForms(t *testing.T) {
	s := memoryStore(t)
	ctx, k := t.Context(), NewName("clicks-1", 1)
	table := numbers(t, 0, 1000, 4)
	clear(table.Float32s()[8:])
	shard, err := s.WriteShard(ctx, k, 0, []Piece{{"w", []int64{1000, 4}, 0, 1000, table, false, true, nil, 0}})
	if err != nil {
		t.Fatal(err)
	}
	m := &state.Checkpoint{Job: "clicks", Progress: &job.Progress{Reader: "abc"}, Shards: []*job.Shard{shard}}
	if err := s.Publish(ctx, k, m); err != nil {
		t.Fatal(err)
	}
	p := shard.Pieces[0]
	for name, change := range map[string]func(){
		"striped":         func() { p.Striped = true },
		"more than whole": func() { p.Bytes, shard.Bytes = 16100, 16100 },
		"most of all":     func() { p.Bytes, shard.Bytes = 1<<63-1, 1<<63-1 },
		"negative":        func() { p.Bytes, shard.Bytes = -1, -1 },
	} {
		striped, bytes := p.Striped, p.Bytes
		change()
		if err := checkManifest(m); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		p.Striped, p.Bytes, shard.Bytes = striped, bytes, bytes
	}
	for name, change := range map[string]func(p *job.Piece){
		"whole, which it is not": func(p *job.Piece) { p.Short, p.Rows, p.Dims = false, p.Bytes/4, []int64{p.Bytes / 4} },
		"other rows":             func(p *job.Piece) { p.Rows, p.Dims = 2000, []int64{2000, 4} },
		"less":                   func(p *job.Piece) { p.Rows, p.Dims = 1, []int64{1, 4} },
		"another type":           func(p *job.Piece) { p.Dtype = int32(tensor.Float64) },
	} {
		p := proto.CloneOf(p)
		change(p)
		c := &Checkpoint{Name: k, Manifest: m, store: s, pieces: map[string][]placed{"w": {{p, k + "/shard-0"}}}}
		dtype, dims, _ := c.Describe("w")
		into, err := tensor.New(dtype, dims...)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Load(ctx, "w", 0, into); err == nil && name != "whole, which it is not" || err != nil && fault.KindOf(err) != fault.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
}
