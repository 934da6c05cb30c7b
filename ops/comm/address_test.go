package comm_test

import (
	"errors"
	"testing"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops/comm"
)

func TestAddress(t *testing.T) {
	for _, i := range []int{0, 7, 10, 4095} {
		if got, err := comm.ParseAddress(comm.Address(i)); err != nil || got != i {
			t.Errorf("%s is parsed as %d, %v", comm.Address(i), got, err)
		}
	}
	for _, s := range []string{"", "0", "pserver:", "pserver:-1", "pserver:+1", "pserver:01", "pserver:1 ", "PSERVER:1",
		"pserver:99999999999999999999", "pserver:2147483648", "127.0.0.1:80", "pserver:0x1"} {
		if got, err := comm.ParseAddress(s); !errors.Is(err, fault.InvalidProgram) {
			t.Errorf("%q is parsed as %d, %v", s, got, err)
		}
	}
}
