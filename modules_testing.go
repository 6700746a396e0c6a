// Module test: functions that try the connection and the calling convention.
package main

import "context"

func testModule() Module {
	return Module{
		Doc: "Functions that try the connection and the calling convention.",
		Funcs: Funcs{
			"ping": {run: testPing, doc: "Answer True: the minion is up and has heard us."},
			"echo": {run: testEcho, doc: "Return the argument as it came."},
		},
	}
}

func testPing(context.Context, *Call, noArgs) (any, error) { return true, nil }

type echoArgs struct {
	Text any
}

func testEcho(_ context.Context, _ *Call, a echoArgs) (any, error) { return a.Text, nil }
