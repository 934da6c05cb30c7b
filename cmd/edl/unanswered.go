package main

import (
	"errors"
	"net"
	"strings"

	"github.com/edl-go/edl/fault"
)

// checkAddress refuses what is no address, so that nobody waits for an answer from there.
func checkAddress(flag, address string) error {
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return fault.E(fault.InvalidArgument, fault.At(flag), fault.Got(fault.Quote(address)), fault.Want("HOST:PORT, such as 127.0.0.1:7164"))
	}
	return nil
}

// unanswered adds what to do to the error of a listener or of an etcd cluster that does not answer. endpoints are those of the cluster, none for an
// embedded one.
func unanswered(endpoints []string, err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable && f.Kind != fault.DeadlineExceeded || f.Hint != "" {
		return err
	}
	known := *f
	switch {
	case strings.HasPrefix(f.Where, "listener"):
		known.Hint = "start one there with \"edl listen\", or name the address of another"
	case strings.HasPrefix(f.Where, "etcd") && len(endpoints) > 0:
		if f.Where == "etcd" {
			known.Where = "etcd at " + strings.Join(endpoints, ", ")
		}
		known.Hint = "start an etcd server there, or name others with --etcd"
	default:
		return err
	}
	return &known
}

// fellSilent adds to the error of a listener that has answered before, and does no more, what may have become of it.
func fellSilent(err error) error {
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Hint != "" || !strings.HasPrefix(f.Where, "listener") {
		return err
	}
	known := *f
	known.Hint = "it has answered before: its process may be paused or gone, or its machine out of reach"
	return &known
}
