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
	Index  string // the slice with the index of the keys
	Counts string // the slice with the counts of candidates; empty: it has none
	Region int    // rows of a region
	First  int    // its first region
	Row    kernel.InitialRow
}

// View returns what finds keys in the table. keys and index are the variables of t. It reports false if they are not those of such a table.
func (t *GrownTable) View(keys, index *tensor.Tensor) (kernel.KeyTable, bool) {
	if keys == nil || index == nil || keys.DType() != tensor.Int64 || index.DType() != tensor.Int32 || int64(keys.Len()) != t.Rows {
		return kernel.KeyTable{}, false
	}
	view := kernel.KeyTable{Keys: keys.Int64s(), Index: index.Int32s(), First: t.First, Region: t.Region}
	return view, view.Agrees()
}

// HasRoom reports whether a slice has something for each row of a table that grows: files have the rows in use.
func (s *Service) HasRoom(slice Slice) bool {
	return slices.ContainsFunc(s.Tables, func(t GrownTable) bool {
		return t.Origin == slice.Table && t.FirstRow == slice.FirstRow && t.Rows == slice.Rows
	})
}

// ComesIntoUse reports whether a slice has something for each row of a table that grows, from the first row of each region on: its values, keys, or state of the
// optimizer.
func (s *Service) ComesIntoUse(slice Slice) bool {
	return s.HasRoom(slice) && !slices.ContainsFunc(s.Tables, func(t GrownTable) bool { return t.Index == slice.Name || t.Counts == slice.Name })
}

// LookUp copies rows of the table to out, by their mixed keys; those of keys without a row are as they will be at first.
func (t *GrownTable) LookUp(out []float32, table *tensor.Tensor, view kernel.KeyTable, mixed []int64) {
	if table.DType() == tensor.BFloat16 {
		kernel.LookUpKeys(out, tensor.Data[uint16](table), view, t.Row, mixed, int(table.Dims()[1]))
		return
	}
	kernel.LookUpKeys(out, table.Float32s(), view, t.Row, mixed, int(table.Dims()[1]))
}

func (s *Service) readTables(a attributes) error {
	names, keys, indexes, seeds := a.Strs("table_names"), a.Strs("table_keys"), a.Strs("table_indexes"), a.Ints("table_seeds")
	ranges, _ := a.Op().Floats("table_ranges")
	counts := a.Strs("table_counts")
	if len(counts) == 0 {
		counts = make([]string, len(names))
	}
	if len(counts) != len(names) {
		return invalid("a name for each of table_names, empty for none", "%d table_counts", len(counts))
	}
	if len(keys) != len(names) || len(indexes) != len(names) || len(seeds) != len(names) || len(ranges) != 2*len(names) {
		return invalid("lists of one length, and two table_ranges for each table", "%d table_names, %d table_keys, %d table_indexes, %d table_seeds and %d table_ranges",
			len(names), len(keys), len(indexes), len(seeds), len(ranges))
	}
	for i, name := range names {
		at := s.slice(name)
		beside := []int{s.slice(keys[i]), s.slice(indexes[i])}
		if counts[i] != "" {
			beside = append(beside, s.slice(counts[i]))
		}
		for _, of := range beside {
			if at < 0 || of < 0 || s.Slices[at].FirstRow != s.Slices[of].FirstRow || s.Slices[at].Rows != s.Slices[of].Rows {
				return invalid("slices with the same rows", "the table %s with the keys %s and the index %s", fault.Quote(name), fault.Quote(keys[i]),
					fault.Quote(indexes[i]))
			}
		}
		t := GrownTable{Slice: s.Slices[at], Keys: keys[i], Index: indexes[i], Counts: counts[i], Row: kernel.InitialRow{Seed: seeds[i], Table: kernel.StreamOf(s.Slices[at].Origin),
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

// slice returns which of Slices has a name, -1 for none.
func (s *Service) slice(name string) int {
	return slices.IndexFunc(s.Slices, func(part Slice) bool { return part.Name == name })
}
