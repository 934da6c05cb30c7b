package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/edl-go/edl/fault"
)

// Who does not answer is named, with what to do; other errors stay as they are.
func TestUnanswered(t *testing.T) {
	endpoints := []string{"http://a:1", "http://b:2"}
	late := errors.New("context deadline exceeded")
	for _, c := range []struct {
		endpoints []string
		err       *fault.Fault
		want      string
	}{
		{endpoints, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late)),
			"etcd at http://a:1, http://b:2: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{endpoints, fault.E(fault.DeadlineExceeded, fault.At("etcd at http://a:1"), fault.Cause(late)),
			"etcd at http://a:1: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{nil, fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(late)),
			`listener a:1: context deadline exceeded; start one there with "edl listen", or name the address of another`},
		{nil, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late)), "etcd: context deadline exceeded"},
		{endpoints, fault.E(fault.Unavailable, fault.At("etcd"), fault.Cause(late),
			fault.Hint("look at it")), "etcd: context deadline exceeded; look at it"},
		{endpoints, fault.E(fault.InvalidArgument, fault.At("etcd"), fault.Got("no endpoint")), "etcd: invalid argument: got no endpoint"},
	} {
		got := unanswered(c.endpoints, c.err)
		if got.Error() != c.want || !errors.Is(got, c.err.Kind) {
			t.Errorf("%v: %v, want %s", c.err, got, c.want)
		}
	}
	if unanswered(endpoints, nil) != nil || fellSilent(nil) != nil {
		t.Error("an error where there was none")
	}
}

// What may have become of a listener that fell silent is told of it alone.
func TestFellSilent(t *testing.T) {
	gone := errors.New("EOF")
	for _, c := range []struct {
		err  *fault.Fault
		says bool
	}{
		{fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(gone)), true},
		{fault.E(fault.Unavailable, fault.At("listener a:1"), fault.Cause(gone), fault.Hint("look at it")), false},
		{fault.E(fault.Unavailable, fault.At("pserver 1"), fault.Cause(gone)), false},
		{fault.E(fault.NotFound, fault.At("listener a:1"), fault.Got("no job")), false},
	} {
		got := fellSilent(c.err)
		if says := strings.HasSuffix(got.Error(), "out of reach"); says != c.says || !errors.Is(got, c.err.Kind) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
