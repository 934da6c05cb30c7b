package comm

import (
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// A Slice is a variable that lives at a pserver from round to round: a variable of the user's program, or a run of its rows. A
// checkpoint consists of them, and from a file of the whole a pserver takes its rows.
type Slice struct {
	Name      string // at the pserver
	Origin    string // in the user's program
	FirstRow  int64  // of the origin
	Rows      int64  // 1 for rank 0
	TotalRows int64  // of the origin
}

// Whole reports whether the slice is all of its origin.
func (s Slice) Whole() bool { return s.Rows == s.TotalRows }

func (s *Service) readSlices(a attributes) error {
	names, origins := a.Strs("slice_names"), a.Strs("slice_origins")
	first, rows, total := a.Ints("slice_first_rows"), a.Ints("slice_rows"), a.Ints("slice_total_rows")
	n := len(names)
	if len(origins) != n || len(first) != n || len(rows) != n || len(total) != n {
		return invalid("lists of one length", "%d slice_names, %d slice_origins, %d slice_first_rows, %d slice_rows and %d slice_total_rows",
			n, len(origins), len(first), len(rows), len(total))
	}
	have := map[string]bool{}
	for i, name := range names {
		if name == "" || name == program.Empty || origins[i] == "" || have[name] {
			return invalid("names of variables, each once", "the slice %s of %s", fault.Quote(name), fault.Quote(origins[i]))
		}
		if first[i] < 0 || rows[i] < 0 || rows[i] > total[i] || first[i] > total[i]-rows[i] {
			return invalid("rows that the variable has", "%d rows from row %d of %d in %s", rows[i], first[i], total[i], fault.Quote(name))
		}
		have[name] = true
		s.Slices = append(s.Slices, Slice{name, origins[i], first[i], rows[i], total[i]})
	}
	return nil
}
