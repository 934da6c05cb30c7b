package sparse_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/tensor"
)

// A ruled is a table whose keys come and go by a rule, with one state of an optimizer, and a map of keys beside it.
type ruled struct {
	t             *rapid.T
	attrs         map[string]program.Attr
	region, width int64
	vars          tensors // as in- and outputs of the ops
	rows          map[int64]float32
	seen, counted map[int64]int64 // the round that has seen a key last, and how many have seen a candidate
	round, hour   int64
}

// newRuled makes a table.
func newRuled(t *rapid.T, region int64, attrs map[string]program.Attr) *ruled {
	height, width := region*kernel.KeyRegions, int64(2)
	r := &ruled{t, map[string]program.Attr{"table_name": "w", "seed": int64(5), "min": float32(1), "max": float32(2), "region_rows": region}, region, width,
		tensors{"Param": {zeros(t, tensor.Float32, height, width)}, "Keys": {zeros(t, tensor.Int64, height)}, "Index": {zeros(t, tensor.Int32, height)},
			"Counts": {zeros(t, tensor.Int32, height)}, "Rounds": {zeros(t, tensor.Int64, 1)}, "Hours": {zeros(t, tensor.Int64, 2)}, "Moments": {zeros(t, tensor.Float32, height, width)}},
		map[int64]float32{}, map[int64]int64{}, map[int64]int64{}, 0, 0}
	for name, value := range attrs {
		r.attrs[name] = value
	}
	kernel.Fill(r.vars["Moments"][0].Float32s(), 7)
	return r
}

// step runs the ops of a round on a gradient of some keys. The update between them gives the state of each row its key, and counts in its values.
func (r *ruled) step(batch []int64) {
	t := r.t
	vars := func(names ...string) (in, out tensors) {
		in, out = tensors{}, tensors{}
		for _, name := range names {
			if name == "Counts" && fmt.Sprint(r.attrs["entry"])[0] != 'c' || name == "Hours" && r.attrs["evict_unseen_days"] == nil {
				continue
			}
			in[name], out[name+"Out"] = r.vars[name], r.vars[name]
		}
		return in, out
	}
	height := r.region * kernel.KeyRegions
	grad := gradient(t, batch, height, r.width, 1)
	in, out := vars("Param", "Keys", "Index", "Counts")
	in["Rounds"], in["Hours"], in["Grad"] = r.vars["Rounds"], r.vars["Hours"], []*tensor.Tensor{grad}
	for range 2 { // a round with global norms inserts twice
		if err := runAt(t, r.hour, "lookup_sparse_table_insert", r.attrs, in, out); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range batch {
		if row := r.view().Find(kernel.MixKey(key)); row >= 0 {
			r.vars["Moments"][0].Float32s()[int64(row)*r.width+1] = float32(key)
			r.vars["Param"][0].Float32s()[int64(row)*r.width]++
		}
	}
	in, out = vars("Param", "Keys", "Index", "Counts", "Rounds", "Hours", "Moments")
	in["Grad"] = []*tensor.Tensor{grad}
	attrs := map[string]program.Attr{"moments_initial": []float32{7}}
	for name, value := range r.attrs {
		attrs[name] = value
	}
	if err := runAt(t, r.hour, "lookup_sparse_table_shrink", attrs, in, out); err != nil {
		t.Fatal(err)
	}
}

func (r *ruled) view() kernel.KeyTable {
	return kernel.KeyTable{Keys: r.vars["Keys"][0].Int64s(), Index: r.vars["Index"][0].Int32s(), Region: int(r.region)}
}

// check compares rows with the map: those of its keys have their values and states, and all others are free.
func (r *ruled) check() {
	values, moments := r.vars["Param"][0].Float32s(), r.vars["Moments"][0].Float32s()
	for key, value := range r.rows {
		row := int64(r.view().Find(kernel.MixKey(key)))
		if row < 0 || values[row*r.width] != value || moments[row*r.width+1] != float32(key) {
			r.t.Fatalf("round %d: key %d has row %d of %d, want one with the value %v", r.round, key, row, r.region, value)
		}
	}
	if used, _ := r.view().Used(); used != len(r.rows) {
		r.t.Fatalf("round %d: %d rows in use, want %d", r.round, used, len(r.rows))
	}
	for row := range values {
		if at := int64(row) / r.width; r.vars["Keys"][0].Int64s()[at] == 0 && (values[row] != 0 || moments[row] != 7) {
			r.t.Fatalf("round %d: the free row %d has the value %v and the state %v", r.round, at, values[row], moments[row])
		}
	}
}

// initial is the first value of a key.
func initial(key int64) float32 {
	var row [2]float32
	kernel.InitialRow{Seed: 5, Table: kernel.StreamOf("w"), Low: 1, High: 2}.Fill(row[:], kernel.MixKey(key))
	return row[0]
}

// keysOfRound draws what a round sees, each key once or twice.
func keysOfRound(t *rapid.T, most int64) []int64 {
	return rapid.SliceOfN(rapid.Int64Range(0, most), 0, 6).Draw(t, "keys")
}

func different(batch []int64) []int64 { return slices.Compact(slices.Sorted(slices.Values(batch))) }

// A key has a row from the nth round on that sees it, until it was unseen for so many rounds. With few rounds, each round looks through a share of the regions that
// makes it all of them within as many.
func TestEntryAndEviction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, unseen := rapid.Int64Range(1, 3).Draw(t, "times"), rapid.Int64Range(0, 5).Draw(t, "rounds unseen")
		if n == 1 && unseen == 0 {
			unseen = 1
		}
		r := newRuled(t, 64, map[string]program.Attr{"entry": fmt.Sprintf("count_filter_entry:%d", n), "evict_unseen": unseen})
		if n == 1 {
			r.attrs["entry"] = "none"
		}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			batch := keysOfRound(t, 20)
			r.step(batch)
			for _, key := range different(batch) {
				r.seen[key] = r.round
				if _, has := r.rows[key]; !has {
					if r.counted[key]++; r.counted[key] < n {
						continue
					}
					r.rows[key] = initial(key)
					delete(r.counted, key)
				}
			}
			for _, key := range batch {
				if _, has := r.rows[key]; has {
					r.rows[key]++
				}
			}
			for key, seen := range r.seen {
				region := int64(kernel.RegionOf(kernel.MixKey(key)))
				if unseen > 0 && r.round-seen >= unseen && region%unseen == r.round%unseen {
					delete(r.rows, key)
					delete(r.counted, key)
					delete(r.seen, key)
				}
			}
			r.check()
			r.round++
		}
	})
}

// A key stays for n days in which no round sees it, and goes in the first round of the 25th time span after that which has seen it, if spans have n hours. Pauses of
// any length make no key look younger than it is, and hours that go back change nothing.
func TestEvictionByDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		days := rapid.Int64Range(1, 3).Draw(t, "days")
		r := newRuled(t, 64, map[string]program.Attr{"entry": rapid.SampledFrom([]string{"none", "count_filter_entry:2"}).Draw(t, "entry"), "evict_unseen_days": days})
		latest := int64(0)
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			r.hour = max(0, latest+rapid.SampledFrom([]int64{0, 1, 2, 7, 24, 25, 60, 1000, -3, -1000}).Draw(t, "hours go by"))
			batch := keysOfRound(t, 20)
			r.step(batch)
			begins := max(r.hour, latest)/days != latest/days
			latest = max(latest, r.hour)
			for _, key := range different(batch) {
				r.seen[key] = latest
				if _, has := r.rows[key]; !has {
					if r.counted[key]++; r.counted[key] < 2 && r.attrs["entry"] != "none" {
						continue
					}
					r.rows[key] = initial(key)
					delete(r.counted, key)
				}
			}
			for _, key := range batch {
				if _, has := r.rows[key]; has {
					r.rows[key]++
				}
			}
			for key, seen := range r.seen {
				if begins && latest/days-seen/days >= 25 {
					delete(r.rows, key)
					delete(r.counted, key)
					delete(r.seen, key)
				}
			}
			r.check()
			r.round++
		}
	})
}

// A table that evicts at its bound never has more keys in a region than it keeps, and keeps those that were seen last. Time spans have 64 rounds.
func TestEvictionAtTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		region := rapid.SampledFrom([]int64{2, 8, 16}).Draw(t, "rows of a region")
		r := newRuled(t, region, map[string]program.Attr{"entry": "none", "at_bound": "evict"})
		keep := int(region - max(region/8, 1))
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			r.round += rapid.Int64Range(1, 200).Draw(t, "rounds go by")
			r.vars["Rounds"][0].Int64s()[0] = r.round
			w := kernel.KeyWriter{KeyTable: r.view(), Stamp: r.round/64%kernel.Stamps + 1}
			for number := range kernel.KeyRegions { // rounds that went by have looked through all regions
				w.Evict(number, 1<<40, int(region), nil)
			}
			batch := keysOfRound(t, 400)
			r.step(batch)
			byRegion := map[int][]int64{}
			for _, key := range different(batch) {
				r.seen[key] = r.round
			}
			for key := range r.seen {
				at := kernel.RegionOf(kernel.MixKey(key))
				byRegion[at] = append(byRegion[at], key)
			}
			for at, keys := range byRegion {
				stay, newest := 0, int64(-1)
				for _, key := range keys {
					if r.view().Find(kernel.MixKey(key)) >= 0 {
						stay++
					} else {
						newest = max(newest, r.seen[key]/64)
						delete(r.seen, key)
					}
				}
				if stay != min(len(keys), keep) {
					t.Fatalf("%d of %d keys stay in region %d, want at most %d", stay, len(keys), at, keep)
				}
				for _, key := range keys {
					if seen, stays := r.seen[key]; stays && seen/64 < newest {
						t.Fatalf("key %d of time span %d stays, and one of %d went", key, seen/64, newest)
					}
				}
			}
		}
	})
}

// Chance lets each key in by itself, in each round anew, whatever else the round has.
func TestProbabilityEntry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Float64Range(0.05, 1).Draw(t, "probability")
		r := newRuled(t, 64, map[string]program.Attr{"entry": fmt.Sprintf("probability_entry:%v", p), "evict_unseen": int64(0)})
		for range rapid.IntRange(1, 10).Draw(t, "rounds") {
			batch := keysOfRound(t, 30)
			r.step(batch)
			row := kernel.InitialRow{Seed: 5, Table: kernel.StreamOf("w")}
			for _, key := range batch {
				if _, has := r.rows[key]; !has && row.Admits(kernel.MixKey(key), r.round, p) {
					r.rows[key] = initial(key)
				}
			}
			for _, key := range batch {
				if _, has := r.rows[key]; has {
					r.rows[key]++
				}
			}
			r.check()
			r.round++
		}
	})
	admitted := 0
	row := kernel.InitialRow{Seed: 5, Table: kernel.StreamOf("w")}
	for key := range int64(10000) {
		if row.Admits(kernel.MixKey(key), key%7, 0.3) {
			admitted++
		}
	}
	if admitted < 2800 || admitted > 3200 {
		t.Errorf("%d of 10000 keys with the probability 0.3", admitted)
	}
}
