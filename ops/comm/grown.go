package comm

import (
	"slices"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/kernel"
	"github.com/edl-go/edl/tensor"
)

// A GrownTable is a table that grows (lookup_sparse_table), or some regions of one, on a pserver.
type GrownTable struct {
	Slice
	Keys   string // the slice with the keys of its rows
	Region int    // rows of a region
	First  int    // its first region
	Row    kernel.InitialRow
}

// LookUp copies rows of the table to out, by their mixed keys; those of keys without a row are as they will be at first. table and keys are the variables of t.
func (t *GrownTable) LookUp(out []float32, table, keys *tensor.Tensor, mixed []int64) {
	index := kernel.KeyTable{Keys: keys.Int64s(), First: t.First, Region: t.Region}
	kernel.LookUpKeys(out, table.Float32s(), index, t.Row, mixed, int(table.Dims()[1]))
}

func (s *Service) readTables(a attributes) error {
	names, keys, seeds := a.Strs("table_names"), a.Strs("table_keys"), a.Ints("table_seeds")
	ranges, _ := a.Op().Floats("table_ranges")
	if len(keys) != len(names) || len(seeds) != len(names) || len(ranges) != 2*len(names) {
		return invalid("lists of one length, and two table_ranges for each table", "%d table_names, %d table_keys, %d table_seeds and %d table_ranges",
			len(names), len(keys), len(seeds), len(ranges))
	}
	for i, name := range names {
		at := slices.IndexFunc(s.Slices, func(part Slice) bool { return part.Name == name })
		of := slices.IndexFunc(s.Slices, func(part Slice) bool { return part.Name == keys[i] })
		if at < 0 || of < 0 || s.Slices[at].FirstRow != s.Slices[of].FirstRow || s.Slices[at].Rows != s.Slices[of].Rows {
			return invalid("two of slice_names with the same rows", "the table %s with the keys %s", fault.Quote(name), fault.Quote(keys[i]))
		}
		t := GrownTable{Slice: s.Slices[at], Keys: keys[i], Row: kernel.InitialRow{Seed: seeds[i], Table: kernel.StreamOf(s.Slices[at].Origin),
			Low: ranges[2*i], High: ranges[2*i+1]}}
		region := t.TotalRows / kernel.KeyRegions
		if region < 1 || t.TotalRows%kernel.KeyRegions != 0 || t.FirstRow%region != 0 || t.Rows%region != 0 {
			return invalid("whole regions", "%d rows from row %d of the table %s of %d", t.Rows, t.FirstRow, fault.Quote(name), t.TotalRows)
		}
		t.Region, t.First = int(region), int(t.FirstRow/region)
		s.Tables = append(s.Tables, t)
	}
	return nil
}
