package wire

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/internal/ranges"
	"github.com/edl-go/edl/proto/rpc"
)

// Ranges cross the wire as they are: in any order, and also those that hold nothing.
func TestRanges(t *testing.T) {
	list := []ranges.Range{{From: 7, To: 9}, {From: 0, To: 3}, {From: 5, To: 5}}
	b, err := proto.Marshal(&rpc.Task{Records: Ranges(list)})
	if err != nil {
		t.Fatal(err)
	}
	var back rpc.Task
	if err := proto.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if got := RangesOf(back.Records); !slices.Equal(got, list) {
		t.Errorf("%v, want %v", got, list)
	}
	if got := RangesOf([]*rpc.RecordRange{nil}); !slices.Equal(got, []ranges.Range{{}}) {
		t.Errorf("a missing range is %v, want an empty one", got)
	}
}
