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
		{endpoints, &fault.Fault{Kind: fault.Unavailable, Where: "etcd", Err: late},
			"etcd at http://a:1, http://b:2: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{endpoints, &fault.Fault{Kind: fault.DeadlineExceeded, Where: "etcd at http://a:1", Err: late},
			"etcd at http://a:1: context deadline exceeded; start an etcd server there, or name others with --etcd"},
		{nil, &fault.Fault{Kind: fault.Unavailable, Where: "listener a:1", Err: late},
			`listener a:1: context deadline exceeded; start one there with "edl listen", or name the address of another`},
		{nil, &fault.Fault{Kind: fault.Unavailable, Where: "etcd", Err: late}, "etcd: context deadline exceeded"},
		{endpoints, &fault.Fault{Kind: fault.Unavailable, Where: "etcd", Err: late, Hint: "look at it"}, "etcd: context deadline exceeded; look at it"},
		{endpoints, &fault.Fault{Kind: fault.InvalidArgument, Where: "etcd", Got: "no endpoint"}, "etcd: invalid argument: got no endpoint"},
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
		{&fault.Fault{Kind: fault.Unavailable, Where: "listener a:1", Err: gone}, true},
		{&fault.Fault{Kind: fault.Unavailable, Where: "listener a:1", Err: gone, Hint: "look at it"}, false},
		{&fault.Fault{Kind: fault.Unavailable, Where: "pserver 1", Err: gone}, false},
		{&fault.Fault{Kind: fault.NotFound, Where: "listener a:1", Got: "no job"}, false},
	} {
		got := fellSilent(c.err)
		if says := strings.HasSuffix(got.Error(), "out of reach"); says != c.says || !errors.Is(got, c.err.Kind) {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}
