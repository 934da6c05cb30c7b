package kernel_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel"
)

// keys draws keys, of which some are neighbours and some the ends of the range.
func keys() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-3, 40), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, kernel.NoKey}))
}

func TestMixedKeysAreKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := keys().Draw(t, "key")
		mixed := kernel.MixKey(key)
		if back := kernel.KeyOf(mixed); back != key {
			t.Fatalf("%d becomes %#x and then %d", key, mixed, back)
		}
		if (mixed == 0) != (key == kernel.NoKey) {
			t.Fatalf("%d becomes %#x", key, mixed)
		}
		height := rapid.SampledFrom([]int64{1, 64, mixed}).Draw(t, "height")
		if row := kernel.KeyRow(mixed, height); mixed != 0 && (row == height || kernel.KeyOfRow(row, height) != mixed) {
			t.Fatalf("%#x has the row %d of %d", mixed, row, height)
		}
	})
}

// Neighbouring keys are spread over the regions evenly: no region has a third more than its share of the keys that documents advise.
func TestKeysFillRegionsEvenly(t *testing.T) {
	const n = 64 * 1024
	for step := range 3 {
		var counts [kernel.KeyRegions]int
		for i := range int64(n) {
			counts[kernel.RegionOf(kernel.MixKey(i<<(20*step)))]++
		}
		if most := slices.Max(counts[:]); most > n/kernel.KeyRegions*4/3 {
			t.Errorf("keys of step %d: %d of %d in one region", step, most, n)
		}
	}
}

// Rows that a table lacks are drawn by their key alone.
func TestLookUpKeys(t *testing.T) {
	const width = 3
	table := emptyTable(1, 0, kernel.KeyRegions)
	w := kernel.KeyWriter{KeyTable: table, Stamp: 1}
	row, _ := w.Insert(kernel.MixKey(7))
	values := make([]float32, len(table.Keys)*width)
	copy(values[row*width:], []float32{1, 2, 3})
	initial := kernel.InitialRow{Seed: 3, Table: kernel.StreamOf("w"), Low: -0.5, High: 0.5}
	mixed := []int64{0, kernel.MixKey(9), kernel.MixKey(7), kernel.MixKey(9)}
	out := slices.Repeat([]float32{9}, len(mixed)*width)
	kernel.LookUpKeys(out, values, table, initial, mixed, width)
	if !slices.Equal(out[:width], []float32{0, 0, 0}) || !slices.Equal(out[2*width:3*width], []float32{1, 2, 3}) || !slices.Equal(out[width:2*width], out[3*width:]) {
		t.Fatal(out)
	}
	for _, x := range out[width : 2*width] {
		if x < -0.5 || x > 0.5 || x == 0 || x == out[width+1] && x == out[width] {
			t.Fatal(out)
		}
	}
	initial.Table = kernel.StreamOf("v")
	other := make([]float32, width)
	if initial.Fill(other, kernel.MixKey(9)); slices.Equal(other, out[width:2*width]) {
		t.Fatal("two tables have one row")
	}
}

func TestOrderKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mixed := []int64{}
		for _, key := range rapid.SliceOfN(keys(), 0, rapid.SampledFrom([]int{60, 400}).Draw(t, "most")).Draw(t, "keys") {
			mixed = append(mixed, kernel.MixKey(key))
		}
		n := len(mixed)
		different := make([]int64, n)
		ordered, count := kernel.OrderKeys(make([]int64, n), make([]int64, n), different, mixed)
		want := slices.Clone(mixed)
		slices.SortFunc(want, func(a, b int64) int { return cmp.Compare(uint64(a), uint64(b)) })
		if want = slices.Compact(want); !slices.Equal(different[:count], want) {
			t.Fatalf("different keys %v, want %v", different[:count], want)
		}
		last := int64(-1)
		for i, entry := range ordered {
			rank, place := kernel.RowAndPlace(entry, n)
			if different[rank] != mixed[place] || entry <= last {
				t.Fatalf("entry %d of %v: place %d with rank %d", i, ordered, place, rank)
			}
			last = entry
		}
		region := rapid.IntRange(0, kernel.KeyRegions).Draw(t, "region")
		below := slices.IndexFunc(want, func(k int64) bool { return kernel.RegionOf(k) >= region })
		if below < 0 {
			below = len(want)
		}
		if got := kernel.KeysBefore(want, region); got != below {
			t.Fatalf("%d keys before region %d, want %d", got, region, below)
		}
	})
}
