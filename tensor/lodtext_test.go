package tensor_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/tensor"
)

func TestParseLoD(t *testing.T) {
	got, err := tensor.ParseLoD("0,2, 3/0,1,1,4")
	if err != nil || !reflect.DeepEqual(got, [][]int64{{0, 2, 3}, {0, 1, 1, 4}}) {
		t.Errorf("got %v, %v", got, err)
	}
	if text := tensor.FormatLoD(got); text != "0,2,3/0,1,1,4" {
		t.Errorf("written as %q", text)
	}
	for _, text := range []string{"", "0,", "0/", "a", "0.5", strings.Repeat("0/", 8) + "0"} {
		if got, err := tensor.ParseLoD(text); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
