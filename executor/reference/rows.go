package reference

import (
	"maps"
	"slices"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/program"
)

// rowsOf returns the rows of the batch: the extent of axis 0 of every fed variable that leaves it open.
func (e *Executor) rowsOf(feed executor.Feed) (int64, error) {
	rows := int64(-1)
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		if feed[name] != nil && len(feed[name].LoD()) > 0 {
			return 0, fault.E(fault.Unsupported, fault.Var(name), fault.Got("a feed whose rows form sequences"),
				fault.Want("rows that can be divided among trainers"))
		}
		if !e.byRows(name) || feed[name] == nil || len(feed[name].Dims()) == 0 {
			continue
		}
		n := feed[name].Dims()[0]
		if rows >= 0 && n != rows {
			return 0, fault.E(fault.ShapeMismatch, fault.Var(name), fault.Gotf("%d rows", n), fault.Wantf("%d rows, as the other feeds have", rows))
		}
		rows = n
	}
	if rows < 1 {
		return 0, fault.E(fault.InvalidArgument, fault.Got("a batch without rows"), fault.Want("at least one"))
	}
	return rows, nil
}

func (e *Executor) byRows(name string) bool {
	v, ok := e.program.Global().Find(name)
	return ok && len(v.Dims) > 0 && v.Dims[0] == program.Unknown
}

// rowsFrom returns views of rows [from, to) of the feeds. Feeds without open rows are the same for every trainer.
func (e *Executor) rowsFrom(feed executor.Feed, from, to int64) (executor.Feed, error) {
	part := executor.Feed{}
	for name, t := range feed {
		part[name] = t
		if t == nil || !e.byRows(name) {
			continue
		}
		rows, err := t.Rows(from, to)
		if err != nil {
			return nil, err
		}
		part[name] = rows
	}
	return part, nil
}
