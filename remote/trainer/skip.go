package trainer

import (
	"sort"

	"github.com/edl-go/edl/dataset"
	"github.com/edl-go/edl/proto/rpc"
)

// skips are ascending ranges of records that a segment leaves out.
type skips []*rpc.RecordRange

// position returns the number of the record that is at place n of those that are not left out.
func (s skips) position(n int64) int64 {
	for _, r := range s {
		if r.From > n {
			break
		}
		n += r.To - r.From
	}
	return n
}

// cut returns what ranges hold of the records that are not left out.
func (s skips) cut(ranges []*rpc.RecordRange) []dataset.Range {
	var kept []dataset.Range
	for _, r := range ranges {
		from := r.From
		for _, out := range s[sort.Search(len(s), func(i int) bool { return s[i].To > from }):] {
			if out.From >= r.To {
				break
			}
			if from < out.From {
				kept = append(kept, dataset.Range{From: from, To: out.From})
			}
			from = out.To
		}
		if from < r.To {
			kept = append(kept, dataset.Range{From: from, To: r.To})
		}
	}
	return kept
}

// count returns how many records ranges hold.
func count(ranges []dataset.Range) int64 {
	n := int64(0)
	for _, r := range ranges {
		n += r.To - r.From
	}
	return n
}
