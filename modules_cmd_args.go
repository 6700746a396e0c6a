// The argument structs of module cmd. What functions have in common is in the
// embedded structs; their order is the order of the parameters.
package main

// cmdPlace says where and as whom a command runs.
type cmdPlace struct {
	Cwd   any `def:"None"`
	Stdin any `def:"None"`
	cmdRunner
}

type cmdRunner struct {
	Runas any `def:"None"`
	Group any `def:"None"`
	Shell any `def:"$SHELL"`
}

type cmdEnviron struct {
	Env      any  `def:"None"`
	CleanEnv bool `def:"False"`
	Template any  `def:"None"`
}

// cmdOutput says what is done with the output on its way to the log.
type cmdOutput struct {
	OutputEncoding any `def:"None"`
	OutputLoglevel any `def:"'debug'"`
	LogCallback    any `def:"None"`
}

type cmdLimits struct {
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
}

// cmdSuccess says which results are no failure.
type cmdSuccess struct {
	SuccessRetcodes any  `def:"None"`
	SuccessStdout   any  `def:"None"`
	SuccessStderr   any  `def:"None"`
	Kwargs          *Map `arg:"**kwargs"`
}

// cmdShown is what becomes of the text that a command prints.
type cmdShown struct {
	Rstrip bool `def:"True"`
	Umask  any  `def:"None"`
	cmdOutput
	HideOutput bool `def:"False"`
	cmdLimits
}

type cmdRunArgs struct {
	Cmd any
	cmdPlace
	PythonShell any `def:"None"`
	cmdEnviron
	cmdShown
	RedirectStderr bool `def:"True"`
	Bg             bool `def:"False"`
	Password       any  `def:"None"`
	EncodedCmd     bool `def:"False"`
	RaiseErr       bool `def:"False"`
	PrependPath    any  `def:"None"`
	cmdSuccess
}

type cmdShellArgs struct {
	Cmd any
	cmdPlace
	cmdEnviron
	cmdShown
	Bg          bool `def:"False"`
	Password    any  `def:"None"`
	PrependPath any  `def:"None"`
	cmdSuccess
}

type cmdStreamArgs struct {
	Cmd any
	cmdPlace
	PythonShell any `def:"None"`
	cmdEnviron
	cmdShown
	Password    any `def:"None"`
	PrependPath any `def:"None"`
	cmdSuccess
}

type cmdRunAllArgs struct {
	Cmd any
	cmdPlace
	PythonShell any `def:"None"`
	cmdEnviron
	cmdShown
	RedirectStderr bool `def:"False"`
	Password       any  `def:"None"`
	EncodedCmd     bool `def:"False"`
	PrependPath    any  `def:"None"`
	cmdSuccess
}

type cmdRetcodeArgs struct {
	Cmd any
	cmdPlace
	PythonShell any `def:"None"`
	cmdEnviron
	Umask any `def:"None"`
	cmdOutput
	cmdLimits
	Password any `def:"None"`
	cmdSuccess
}

type cmdRunBgArgs struct {
	Cmd any
	Cwd any `def:"None"`
	cmdRunner
	PythonShell any `def:"None"`
	cmdEnviron
	Umask   any `def:"None"`
	Timeout any `def:"None"`
	cmdOutput
	ResetSystemLocale any  `def:"True"`
	IgnoreRetcode     bool `def:"False"`
	Saltenv           any  `def:"None"`
	Password          any  `def:"None"`
	PrependPath       any  `def:"None"`
	cmdSuccess
}

type cmdRunChrootArgs struct {
	Root string
	Cmd  any
	cmdPlace
	PythonShell any `def:"True"`
	Binds       any `def:"None"`
	cmdEnviron
	Rstrip         bool `def:"True"`
	Umask          any  `def:"None"`
	OutputEncoding any  `def:"None"`
	OutputLoglevel any  `def:"'quiet'"`
	LogCallback    any  `def:"None"`
	HideOutput     bool `def:"False"`
	cmdLimits
	Bg bool `def:"False"`
	cmdSuccess
}

// cmdSource names a script and says where it runs.
type cmdSource struct {
	Source string
	Args   any `def:"None"`
	cmdPlace
	PythonShell any `def:"None"`
	Env         any `def:"None"`
}

type cmdScriptArgs struct {
	cmdSource
	Template any `def:"None"`
	Umask    any `def:"None"`
	cmdOutput
	HideOutput        bool `def:"False"`
	Timeout           any  `def:"None"`
	ResetSystemLocale any  `def:"True"`
	Saltenv           any  `def:"None"`
	UseVt             bool `def:"False"`
	Bg                bool `def:"False"`
	Password          any  `def:"None"`
	cmdSuccess
}

type cmdScriptRetcodeArgs struct {
	cmdSource
	Template          any `def:"'jinja'"`
	Umask             any `def:"None"`
	Timeout           any `def:"None"`
	ResetSystemLocale any `def:"True"`
	Saltenv           any `def:"None"`
	cmdOutput
	UseVt    bool `def:"False"`
	Password any  `def:"None"`
	cmdSuccess
}

type cmdExecCodeArgs struct {
	Lang   string
	Code   string
	Cwd    any  `def:"None"`
	Args   any  `def:"None"`
	Kwargs *Map `arg:"**kwargs"`
}
