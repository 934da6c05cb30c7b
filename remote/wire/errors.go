package wire

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

// ToStatus turns an error into a gRPC status that carries the whole fault, so that the other end sees its kind, op and variable.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	f := FailureOf(err)
	s, derr := status.New(codes.Code(fault.Kind(f.Kind).GRPCCode()), err.Error()).WithDetails(f)
	if derr != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return s.Err()
}

// FromStatus is the inverse of ToStatus on the caller's side. where names the peer.
func FromStatus(where string, err error) error {
	if err == nil {
		return nil
	}
	s, ok := status.FromError(err)
	if !ok {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return &fault.Fault{Kind: contextKind(err), Where: where, Err: err}
		}
		var f *fault.Fault
		if errors.As(err, &f) {
			return err
		}
		return &fault.Fault{Kind: fault.Unavailable, Where: where, Err: err}
	}
	for _, d := range s.Details() {
		if f, ok := d.(*job.Failure); ok {
			return FaultOf(f)
		}
	}
	return &fault.Fault{Kind: kindOfCode(s.Code()), Where: where, Err: errors.New(s.Message())}
}

func contextKind(err error) fault.Kind {
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.DeadlineExceeded
	}
	return fault.Canceled
}

// kindOfCode maps the codes that gRPC itself produces.
func kindOfCode(c codes.Code) fault.Kind {
	switch c {
	case codes.Unavailable:
		return fault.Unavailable
	case codes.DeadlineExceeded:
		return fault.DeadlineExceeded
	case codes.Canceled:
		return fault.Canceled
	case codes.ResourceExhausted:
		return fault.TooLarge
	case codes.Unimplemented:
		return fault.Unsupported
	case codes.InvalidArgument:
		return fault.InvalidArgument
	case codes.NotFound:
		return fault.NotFound
	}
	return fault.Internal
}

// FailureOf puts an error into its message. A list of faults keeps the kind of its first and the text of all.
func FailureOf(err error) *job.Failure {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	if !errors.As(err, &f) {
		kind := fault.Internal
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			kind = contextKind(err)
		}
		return &job.Failure{Kind: int32(kind), Message: err.Error()}
	}
	if err.Error() != f.Error() {
		return &job.Failure{Kind: int32(f.Kind), Message: err.Error()}
	}
	m := &job.Failure{Kind: int32(f.Kind), Op: f.Op, Variable: f.Variable, Where: f.Where, Got: f.Got, Want: f.Want, Site: f.Site, Hint: f.Hint}
	if f.Err != nil {
		m.Message = f.Err.Error()
	}
	return m
}

// FaultOf is the inverse of FailureOf; it returns nil for nil.
func FaultOf(m *job.Failure) error {
	if m == nil {
		return nil
	}
	f := &fault.Fault{Kind: fault.Kind(m.Kind), Op: m.Op, Variable: m.Variable, Where: m.Where, Got: m.Got, Want: m.Want, Site: m.Site, Hint: m.Hint}
	if m.Message != "" {
		f.Err = errors.New(m.Message)
	}
	return f
}
