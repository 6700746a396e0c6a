// Errors of execution functions: the kinds that Salt tells apart, because each
// reaches the user in other words, and the words themselves.
package main

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorKind says which of Salt's exceptions an error stands for.
type ErrorKind int

const (
	ErrOther           ErrorKind = iota // any exception; Class names it
	ErrExecution                        // CommandExecutionError
	ErrInvocation                       // SaltInvocationError
	ErrCommandNotFound                  // CommandNotFoundError
	ErrType                             // TypeError: the call does not fit the signature
)

// ModuleError is a failure of an execution function as Salt reports it.
type ModuleError struct {
	Kind  ErrorKind
	Class string // Python's name of the exception, for ErrOther
	Msg   string
	Trace string // traceback of user-written code, with its last line
	Info  *Map   // what ExecErrorInfo was given: changes made, errors
	Short string // Msg without Info
}

func (e *ModuleError) Error() string { return e.Msg }

// PythonClass is the exception with its module, as tracebacks name it.
func (e *ModuleError) PythonClass() string {
	switch e.Kind {
	case ErrExecution:
		return "salt.exceptions.CommandExecutionError"
	case ErrInvocation:
		return "salt.exceptions.SaltInvocationError"
	case ErrCommandNotFound:
		return "salt.exceptions.CommandNotFoundError"
	case ErrType:
		return "TypeError"
	}
	return e.Class
}

// ExecErrorf is CommandExecutionError: something on the box went wrong.
//
//go:noinline
func ExecErrorf(format string, a ...any) error {
	return &ModuleError{Kind: ErrExecution, Msg: fmt.Sprintf(format, a...)}
}

// ExecErrorInfo is a CommandExecutionError with details: a text of its own, then
// info in the nested layout. States take the changes out of info.
func ExecErrorInfo(msg string, info *Map) error {
	e := &ModuleError{Kind: ErrExecution, Msg: msg, Short: msg, Info: info}
	if info.Len() == 0 {
		return e
	}
	text, err := Output("nested", info, OutputOptions{})
	if err != nil {
		return e
	}
	if msg != "" && !strings.ContainsAny(msg[len(msg)-1:], ".?!") {
		e.Msg += "."
	}
	if msg != "" {
		e.Msg += " "
	}
	e.Msg += "Additional info follows:\n\n" + strings.TrimRight(text, "\n")
	return e
}

// InvocationErrorf is SaltInvocationError: the arguments make no sense.
//
//go:noinline
func InvocationErrorf(format string, a ...any) error {
	return &ModuleError{Kind: ErrInvocation, Msg: fmt.Sprintf(format, a...)}
}

// NotFoundErrorf is CommandNotFoundError: a program that is needed is missing.
//
//go:noinline
func NotFoundErrorf(format string, a ...any) error {
	return &ModuleError{Kind: ErrCommandNotFound, Msg: fmt.Sprintf(format, a...)}
}

// TypeErrorf is TypeError: the call does not fit the signature.
func TypeErrorf(format string, a ...any) error {
	return &ModuleError{Kind: ErrType, Msg: fmt.Sprintf(format, a...)}
}

// OtherErrorf is any other exception, by Python's name of its class.
//
//go:noinline
func OtherErrorf(class, format string, a ...any) error {
	return &ModuleError{Kind: ErrOther, Class: class, Msg: fmt.Sprintf(format, a...)}
}

// asModuleError brings any error to the form above.
func asModuleError(err error) *ModuleError {
	var me *ModuleError
	if errors.As(err, &me) {
		return me
	}
	return &ModuleError{Kind: ErrOther, Class: "Exception", Msg: err.Error()}
}

// Traceback is the text that stands for a Python traceback, ended by the line
// with the class and the message.
func (e *ModuleError) Traceback() string {
	if e.Trace != "" {
		return e.Trace
	}
	last := e.PythonClass()
	if e.Msg != "" {
		last += ": " + e.Msg
	}
	return "Traceback (most recent call last):\n" + last + "\n"
}

// JobErrorText is what a minion returns for a failed function; doc is the
// function's documentation, shown with calls that do not fit (cli.md section 3).
func JobErrorText(fun string, err error, doc string) string {
	var missing *NotAvailableError
	if errors.As(err, &missing) {
		return missing.Error()
	}
	e := asModuleError(err)
	switch e.Kind {
	case ErrExecution:
		return "ERROR: " + e.Msg
	case ErrInvocation:
		return fmt.Sprintf("ERROR executing '%s': %s", fun, e.Msg)
	case ErrCommandNotFound:
		return fmt.Sprintf("Command required for '%s' not found: %s", fun, e.Msg)
	case ErrType:
		return fmt.Sprintf("Passed invalid arguments to %s: %s\n%s", fun, e.Msg, doc)
	}
	return "The minion function caused an exception: " + e.Traceback()
}
