package wire

import (
	"context"
	"errors"
	"strings"

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
	var known *fault.Fault
	if _, ok := status.FromError(err); ok && !errors.As(err, &known) {
		return err
	}
	f := FailureOf(err)
	code := codes.Code(fault.Kind(f.Kind).GRPCCode())
	s, derr := status.New(code, text(err.Error())).WithDetails(f)
	if derr != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return s.Err()
}

// FromStatus is the inverse of ToStatus on the caller's side. where names the peer: it is the place of errors of the transport itself, and of a
// fault of the peer that does not say where it was found. It returns nil for nil, and a fault unchanged, unless the fault names the peer only by its
// address.
func FromStatus(where string, err error) error {
	if err == nil {
		return nil
	}
	var f *fault.Fault
	if errors.As(err, &f) {
		if _, nameless := f.Err.(transportError); nameless && f == err {
			named := *f
			named.Err = errors.New(f.Err.Error())
			if named.Where = where; !strings.HasSuffix(where, f.Where) {
				named.Where += " at " + f.Where
			}
			return &named
		}
		return err
	}
	s, ok := status.FromError(err)
	if !ok {
		kind := fault.Unavailable
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			kind = contextKind(err)
		}
		return fault.E(kind, fault.At(where), fault.Cause(err))
	}
	for _, d := range s.Details() {
		if m, ok := d.(*job.Failure); ok {
			if m.Where == "" {
				m.Where = where
			}
			return FaultOf(m)
		}
	}
	return fault.E(kindOfCode(s.Code()), fault.At(where), fault.Cause(errors.New(plain(s.Message()))))
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
	case codes.Unauthenticated:
		return fault.Denied
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
		return &job.Failure{Kind: int32(kind), Message: text(err.Error())}
	}
	if err.Error() != f.Error() {
		return &job.Failure{Kind: int32(f.Kind), Message: text(err.Error())}
	}
	m := &job.Failure{Kind: int32(f.Kind), Op: text(f.Op), Variable: text(f.Variable), Where: text(f.Where), Got: text(f.Got), Want: text(f.Want),
		Line: text(f.Line), Hint: text(f.Hint)}
	if f.Err != nil {
		m.Message = text(f.Err.Error())
	}
	return m
}

// text returns s as valid UTF-8, as messages need: it may hold a file name of any bytes.
func text(s string) string { return strings.ToValidUTF8(s, "?") }

// FaultOf is the inverse of FailureOf; it returns nil for nil. OK, which is no failure, and a kind that this build does not know become
// fault.Internal.
func FaultOf(m *job.Failure) error {
	if m == nil {
		return nil
	}
	kind := fault.Kind(m.Kind)
	if kind <= fault.OK || kind.String() == fault.Internal.String() {
		kind = fault.Internal
	}
	f := fault.E(kind, fault.Op(m.Op), fault.Var(m.Variable), fault.At(m.Where), fault.Got(m.Got), fault.Want(m.Want), fault.Line(m.Line),
		fault.Hint(m.Hint))
	if m.Message != "" {
		f.Err = errors.New(m.Message)
	}
	return f
}

// transportError is the text of an error of the transport, in a fault that has the address of the peer but not its name.
type transportError string

func (e transportError) Error() string { return string(e) }

// Broken reports whether a call has failed because its connection broke: err comes straight from the call, and the peer did not answer. What may be
// asked twice can be asked again.
func Broken(err error) bool {
	var f *fault.Fault
	var transport transportError
	return errors.As(err, &f) && f.Kind == fault.Unavailable && errors.As(f.Err, &transport)
}

// fromAddress is FromStatus for a caller that knows only the address of the peer.
func fromAddress(address string, err error) error {
	err = FromStatus(address, err)
	if f, ok := err.(*fault.Fault); ok && f.Where == address && f.Err != nil {
		f.Err = transportError(f.Err.Error())
	}
	return err
}

// plain returns the error of the operating system from the text of the transport about a connection. It drops the address, because errors name the
// peer before this text.
func plain(message string) string {
	const quoted, dialing = `connection error: desc = "`, "transport: Error while dialing: "
	if _, inner, ok := strings.Cut(message, quoted); ok {
		if message, ok = strings.CutSuffix(inner, `"`); !ok {
			message = inner
		}
	}
	_, why, ok := strings.Cut(message, dialing)
	if !ok {
		return strings.TrimPrefix(message, "transport: ")
	}
	if dialed, rest, ok := strings.Cut(why, ": "); ok && strings.HasPrefix(dialed, "dial ") {
		why = rest
	}
	return strings.TrimPrefix(why, "connect: ")
}
