package executor

import "github.com/edl-go/edl/fault"

// RefuseInCallback is the error of a call that changes the state and comes while the callback of Train runs. call is the name of the method.
func RefuseInCallback(call string) error {
	return fault.E(fault.InvalidArgument, fault.At("executor"), fault.Got(call+" from the callback of Train, or while the callback runs"),
		fault.Want("a call that only reads the state: Save, or Run of a program that trains nothing"),
		fault.Hint("return executor.ErrStop from the callback, and call "+call+" when Train has returned"))
}

// ClosedInCallback is the error of Train when its callback has closed the executor.
func ClosedInCallback() error {
	return fault.E(fault.Canceled, fault.At("executor"), fault.Got("Close from the callback of Train, or while the callback runs"))
}
