//! The paths that a run may not change unless it is allowed to (Λ), and those that count as tests (Q): the default path globs, one row
//! per tool. Owns the rows, which docs/protected-paths.md shows. A path is protected because something reads it later, outside the
//! sandbox, and follows it: a CI, git, an editor, a coding agent, a shell, a test runner.

/// One row: a tool and the globs of the files that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtectedRow {
    /// The tool, or what several have in common.
    pub tool: &'static str,
    /// Its globs. One that ends with `/**` is also its folder itself, so that no link takes the folder's place.
    pub globs: &'static [&'static str],
}

const fn row(tool: &'static str, globs: &'static [&'static str]) -> ProtectedRow {
    ProtectedRow { tool, globs }
}

/// Files that run on another machine, or on the user's, after a change: by default they may not be changed (Λ).
pub const PROTECTED_LAWS: &[ProtectedRow] = &[
    row("CreAleph", &["**/crealeph.toml", "**/.crealeph*", "**/.crealeph*/**"]),
    row("short names of Windows (`GITHUB~1`)", &["**/*~[0-9]", "**/*~[0-9]/**", "**/*~[0-9].{?,??,???}"]),
    row("policies at the top", &["policies/**", "policy/**"]),
    row("GitHub: Actions, Dependabot, Copilot", &["**/{.github,.dependabot}/**", "**/action.{yml,yaml}"]),
    row("code owners", &["**/{CODEOWNERS,OWNERS,OWNERS_ALIASES}"]),
    row(
        "GitLab",
        &["**/.gitlab-ci*.{yml,yaml}", "**/{*.gitlab-ci,salsa-ci}.{yml,yaml}", "**/{.gitlab-ci,.gitlab}/**"],
    ),
    row("Gitea, Forgejo", &["**/{.gitea,.forgejo}/**"]),
    row("CircleCI", &["**/.circleci/**"]),
    row("Travis CI", &["**/.travis.{yml,yaml}", "**/.travis/**"]),
    row("Bitbucket", &["**/bitbucket-pipelines.{yml,yaml}"]),
    row(
        "Drone, Woodpecker",
        &["**/.{drone,woodpecker}.{yml,yaml,jsonnet,star}", "**/{.drone,.woodpecker}/**"],
    ),
    row("Jenkins", &["**/Jenkinsfile*", "**/*.Jenkinsfile", "**/.jenkins/**"]),
    row(
        "Azure Pipelines",
        &[
            "**/{.,}azure-pipelines*.{yml,yaml}",
            "**/.vsts-ci.{yml,yaml}",
            "**/{.azure-pipelines,azure-pipelines,.pipelines,.azuredevops,.vsts-ci}/**",
        ],
    ),
    row("AppVeyor", &["**/{.,}appveyor.{yml,yaml}", "**/.appveyor/**"]),
    row("Buildkite", &["**/.buildkite/**", "**/{.,}buildkite.{yml,yaml,json}"]),
    row("Cirrus CI", &["**/.cirrus.{yml,yaml,star}"]),
    row("TeamCity, Bamboo, Space", &["**/{.teamcity,bamboo-specs}/**", "**/.space.kts"]),
    row(
        "Semaphore, Codefresh, Harness",
        &["**/{.semaphore,.codefresh,.harness}/**", "**/codefresh.{yml,yaml}"],
    ),
    row("Tekton, Prow, Zuul", &["**/{.tekton,.prow,zuul.d,.zuul.d}/**", "**/{.zuul,zuul,.prow}.{yml,yaml}"]),
    row("sourcehut", &["**/.builds/**", "**/.build.yml"]),
    row("cloud builds", &["**/{cloudbuild,buildspec}*.{yml,yaml,json}"]),
    row("Earthly, Dagger", &["**/Earthfile", "**/dagger.json", "**/.dagger/**"]),
    row(
        "builds of apps: Bitrise, Codemagic, Xcode Cloud",
        &["**/{.,}bitrise.{yml,yaml}", "**/codemagic.{yml,yaml}", "**/ci_scripts/**"],
    ),
    row(
        "GoCD, Buddy, OneDev, Taskcluster, Evergreen",
        &[
            "**/*.gocd.{yml,yaml,json}",
            "**/{.,}buddy.{yml,yaml}",
            "**/.buddy/**",
            "**/.onedev-buildspec.yml",
            "**/.taskcluster.{yml,yaml}",
            "**/{.,}evergreen.{yml,yaml}",
        ],
    ),
    row(
        "other CI",
        &[
            "**/{.ci,.kokoro,.expeditor,.copr}/**",
            "**/{.scrutinizer,.shippable,shippable,wercker,.vela,screwdriver,.rultor,garnix}.{yml,yaml}",
            "**/{.,}packit.{yml,yaml,json}",
        ],
    ),
    row(
        "services that build and deploy what is pushed",
        &[
            "**/{netlify.toml,vercel.json,now.json,render.yaml,railway.json,railway.toml,heroku.yml,amplify.yml,apphosting.yaml,.platform.app.yaml}",
            "**/{.do,.platform,.upsun}/**",
            "**/{.,}readthedocs.{yml,yaml}",
        ],
    ),
    row(
        "infrastructure: Atlantis, Digger, env0, Spacelift, Argo CD",
        &["**/{atlantis,digger,env0}.{yml,yaml}", "**/.spacelift/**", "**/.argocd-source*.yaml"],
    ),
    row(
        "releases",
        &[
            "**/{.,}goreleaser.{yml,yaml}",
            "**/{.releaserc,release.config.,.release-it.,release-please-config.,.release-please-manifest.}*",
            "**/{release-plz.toml,.release-plz.toml,dist-workspace.toml,jreleaser.yml}",
        ],
    ),
    row(
        "bots that merge and review",
        &[
            "**/{renovate,.renovaterc}*",
            "**/.mergify/**",
            "**/{.mergify,.bulldozer,.policy,.pullapprove,.coderabbit}.{yml,yaml}",
            "**/{.kodiak,bors,.pr_agent}.toml",
        ],
    ),
    row("git", &["**/{.gitattributes,.gitmodules,.gitconfig,.lfsconfig,.gitreview}"]),
    row(
        "other version control",
        &[
            "**/{.sl,.bzr,_darcs,.pijul,.fossil-settings}/**",
            "**/{.fslckout,_FOSSIL_,.p4config,.hgsub,.hgsubstate,.arcconfig,.arclint,.reviewboardrc}",
        ],
    ),
    row("git hooks", &["**/{.githooks,.git-hooks,.hooks,git-hooks,githooks}/**"]),
    row("husky", &["**/.husky/**", "**/.huskyrc*"]),
    row(
        "pre-commit",
        &["**/.pre-commit-config.{yml,yaml}", "**/.pre-commit-hooks.{yml,yaml}", "**/prek.toml"],
    ),
    row("lefthook", &["**/{.,}lefthook*", "**/{.,}lefthook*/**"]),
    row(
        "overcommit, simple-git-hooks, others",
        &[
            "**/.overcommit.{yml,yaml}",
            "**/{.,}simple-git-hooks.{js,cjs,mjs,json}",
            "**/{.cargo-husky,.captainhook}/**",
            "**/{captainhook.json,.rusty-hook.toml,hk.pkl,cog.toml,.gitlint}",
            "**/grumphp.{yml,yaml,yml.dist,yaml.dist}",
        ],
    ),
    row(
        "lint-staged, commitlint",
        &["**/{.lintstagedrc,lint-staged.config,.commitlintrc,commitlint.config}*"],
    ),
    row("VS Code, Visual Studio", &["**/{.vscode,.vs}/**", "**/*.code-workspace"]),
    row("JetBrains", &["**/{.idea,.fleet,.aiassistant}/**"]),
    row("Eclipse", &["**/.project", "**/{.externalToolBuilders,.settings}/**"]),
    row(
        "Vim, Neovim, Emacs",
        &[
            "**/{.vim,.nvim}/**",
            "**/{.exrc,.vimrc,_vimrc,.lvimrc,.nvimrc,.nvim.lua,.exrc.lua,.lazy.lua,.neoconf.json}",
            "**/{.dir-locals.el,.dir-locals-2.el}",
        ],
    ),
    row(
        "other editors",
        &["**/{.zed,.nova,.lapce,.helix,.theia}/**", "**/*.{sublime-project,sublime-workspace}"],
    ),
    row("commands of language servers", &["**/{.,}rust-analyzer.toml"]),
    row(
        "development containers",
        &[
            "**/{.devcontainer,.codesandbox,.idx,.gitpod,.ona,.che}/**",
            "**/{.devcontainer.json,.gitpod.yml,.gitpod.Dockerfile,.replit,replit.nix,.stackblitzrc}",
            "**/{.,}devfile.{yml,yaml}",
        ],
    ),
    row(
        "direnv, mise, asdf and other shells of a folder",
        &[
            "**/.envrc",
            "**/{.direnv,.mise,mise,.config/mise,.shadowenv.d}/**",
            "**/{.,}mise*.toml",
            "**/{.tool-versions,.prototools,.rvmrc}",
            "**/{.autoenv,.devenv,devenv.}*",
            "**/{.,}aqua.{yml,yaml}",
            "**/{.tmuxinator,.tmuxp}.{yml,yaml,json}",
        ],
    ),
    row(
        "interpreters and debuggers that read a file of the folder",
        &[
            "**/{.gdbinit,.lldbinit,.pdbrc,.pdbrc.py,.irbrc,.pryrc,.byebugrc,.ghci,.ocamlinit,.utoprc,.iex.exs,.erlang,.Rprofile,.Renviron}",
        ],
    ),
    row("Claude Code", &["**/.claude*", "**/.claude*/**", "**/CLAUDE*.md", "**/SKILL.md"]),
    row("Codex and others that read AGENTS.md", &["**/{.codex,.agents}/**", "**/{AGENTS,AGENT}*.md"]),
    row("Gemini, Qwen", &["**/{.gemini,.qwen}/**", "**/{GEMINI,QWEN}.md", "**/{.geminiignore,.aiexclude}"]),
    row("MCP servers", &["**/{.,}mcp{,_settings,_config,_servers,-servers}.json", "**/.mcp/**"]),
    row("Cursor", &["**/.cursor*", "**/.cursor*/**"]),
    row("Windsurf", &["**/.windsurf*", "**/.windsurf*/**", "**/.codeium*", "**/.codeium/**"]),
    row("aider", &["**/.aider*", "**/.aider*/**"]),
    row(
        "Continue, Cline, Roo, Kilo Code",
        &[
            "**/{.continue,.cline,.clinerules,.roo,.kilocode}/**",
            "**/{.continuerc.json,.continuerules,.continueignore,.clineignore,.roomodes,.roorules*,.rooignore,.kilocodemodes,.kilocodeignore}",
        ],
    ),
    row(
        "other coding agents",
        &[
            "**/{.augment,.junie,.opencode,.goose,.trae,.kiro,.crush,.factory,.openhands,.amazonq,.copilot}/**",
            "**/{.amp,.cody,.sourcegraph,.tabnine,.zencoder,.qodo,.qoder,.devin,.firebender,.rovodev,.codebuddy,.iflow,.vibe,.warp,.serena,.ruler,.rulesync,.pi,.grok,.ai}/**",
            "**/{.augment-guidelines,.augmentignore,.goosehints,opencode.json,opencode.jsonc,crush.json,.crush.json,firebender.json,gptme.toml,.aiignore}",
            "**/{CRUSH.md,WARP.md,IFLOW.md,replit.md,.rules,.openhands_instructions}",
        ],
    ),
];

/// Files that decide whether the tests that ran are the original tests (Q). Only limited if `max_invariants` is set.
pub const PROTECTED_INVARIANTS: &[ProtectedRow] = &[
    row(
        "tests",
        &[
            "**/{tests,test,__tests__,spec,specs,testdata,__mocks__,__snapshots__,fixtures,e2e}/**",
            "{t,xt}/**",
            "**/*_{test,tests,spec}.*",
            "**/*.{test,tests,spec}.*",
            "**/*.{snap,feature,bats,t}",
            "**/*_unittest.*",
            "**/test_*.*",
            "**/{test_*,*_test,*_tests}/**",
            "**/{tests,test}.{rs,py,js,ts,go,rb,exs}",
            "**/*{Test,Tests,TestCase,IT,Spec}.{java,kt,kts,scala,groovy,cs,fs,vb,php,swift}",
        ],
    ),
    row("schemas", &["schemas/**", "**/*.schema.json"]),
    row(
        "project files",
        &[
            "**/{Cargo.toml,package.json,pyproject.toml,setup.py,setup.cfg,go.mod,go.work,pom.xml,Gemfile,gems.rb,composer.json,Package.swift,mix.exs,deno.json,deno.jsonc,import_map.json}",
            "**/*.{gradle,gradle.kts,csproj,fsproj,vbproj,sln,slnx,gemspec,cabal,sbt,opam,nimble,rockspec}",
            "**/*.{props,targets,rsp,runsettings}",
            "**/{global.json,nuget.config,packages.config,gradle.properties,.config/dotnet-tools.json,xunit.runner.json}",
            "**/{requirements*.txt,constraints*.txt,Pipfile,pixi.toml,environment.yml}",
            "**/{project.clj,deps.edn,tests.edn,bb.edn,rebar.config,stack.yaml,cabal.project,package.yaml,dune,dune-project,pubspec.yaml,Project.toml,build.zig,build.zig.zon,shard.yml,cpanfile,flake.nix,shell.nix,default.nix}",
            "**/*.{xcodeproj,xcworkspace,xctestplan,swiftpm}/**",
        ],
    ),
    row(
        "build files",
        &[
            "**/{Makefile,GNUmakefile}{,.am,.in,.inc,.toml}",
            "**/{justfile,.justfile,Taskfile.yml,Taskfile.yaml,Taskfile.dist.yml,Rakefile,noxfile.py,tasks.py,dodo.py,SConstruct,wscript,build.rs,build.xml,build.mill,build.sc,magefile.go,xmake.lua,Makefile.PL,Build.PL,config.nims}",
            "**/{CMakeLists.txt,CMakePresets.json,CMakeUserPresets.json,configure,configure.ac,meson.build,meson.options,meson_options.txt,conanfile.py,conanfile.txt,vcpkg.json}",
            "**/*.{mk,mak,cmake,rake,just,bzl}",
            "**/{BUILD,BUILD.bazel,WORKSPACE,WORKSPACE.bazel,MODULE.bazel,.bazelrc,.bazelversion,BUCK,.buckconfig,BUILD.gn,.gn,pants.toml}",
            "**/{nx,turbo,lerna,rush,angular}.json",
            "**/{gulpfile,Gruntfile}.*",
            "**/{buildSrc,build-logic,magefiles}/**",
            "project/*.{scala,properties}",
        ],
    ),
    row(
        "toolchains, package managers and their wrappers",
        &[
            "**/{.cargo,.bundle}/**",
            "**/{rust-toolchain,rust-toolchain.toml,Cross.toml,.python-version,.node-version,.nvmrc,.ruby-version,.java-version,.sdkmanrc}",
            "**/{gradlew,gradlew.bat,mvnw,mvnw.cmd,rebar3}",
            "**/{gradle,.mvn}/**",
            "**/{.npmrc,.yarnrc,.yarnrc.yml,.pnp.cjs,.pnp.loader.mjs,pnpm-workspace.yaml,.pnpmfile.cjs,.pnpmfile.mjs,bunfig.toml}",
            "**/.yarn/**",
            "**/{pip.conf,uv.toml,poetry.toml,pdm.toml,.pdm.toml,php.ini,.user.ini}",
        ],
    ),
    row(
        "test runners of Python",
        &[
            "**/{conftest.py,pytest.ini,.pytest.ini,tox.ini,tox.toml,.coveragerc,.noserc,nose2.cfg,unittest.cfg,pytest.toml,behave.ini,.stestr.conf}",
            "**/{sitecustomize,usercustomize}.{py,pyc,so,*.so}",
            "**/*.{pth,pyc,egg,egg-link}",
            "**/*.{dist-info,egg-info}/**",
            "**/{.tox,.nox,.eggs}/**",
        ],
    ),
    row(
        "test runners of JavaScript",
        &[
            "**/{jest,vitest,karma,playwright,cypress,ava,babel,webpack,vite,rollup,metro,wdio,nightwatch,testem,protractor,codecept,stryker,rspack,rsbuild,esbuild}*.{config,conf,setup,workspace}.*",
            "**/{jest,vitest}.{setup,preset}*",
            "**/setupTests.*",
            "**/{.mocharc,.nycrc,.c8rc,.babelrc,.swcrc,.taprc,.jasmine}*",
            "**/{cypress.json,jasmine.json,node.config.json}",
            "**/{tsconfig,jsconfig}*.json",
        ],
    ),
    row(
        "other test runners",
        &[
            "**/{.rspec,.rspec-local,.simplecov,cucumber.yml,phpunit.xml,phpunit.xml.dist,phpunit.dist.xml,codeception.yml,behat.yml,behat.yml.dist,phpspec.yml,testng.xml,dart_test.yaml,.busted,.proverc,.shellspec,.hspec}",
            "**/{.config/nextest.toml,.nextest.toml,tarpaulin.toml,.tarpaulin.toml}",
        ],
    ),
    row(
        "linters and type checkers, which a test command may run",
        &[
            "**/{.eslintrc,eslint.config,.prettierrc,prettier.config,.stylelintrc,stylelint.config,biome.json,.oxlintrc}*",
            "**/{.pylintrc,pylintrc,mypy.ini,.mypy.ini,.flake8,ruff.toml,.ruff.toml,pyrightconfig.json,ty.toml}",
            "**/{clippy.toml,.clippy.toml,rustfmt.toml,.rustfmt.toml,deny.toml,.clang-tidy,.golangci.yml,.golangci.yaml,.golangci.toml}",
            "**/{.rubocop.yml,phpstan.neon,phpstan.neon.dist,psalm.xml,checkstyle.xml,.swiftlint.yml,.credo.exs,.formatter.exs,analysis_options.yaml,.editorconfig}",
        ],
    ),
    row("libraries in the tree", &["**/{node_modules,site-packages,.venv,venv,vendor}/**"]),
    row(
        "modules that take the place of a test library",
        &[
            "**/{unittest,pytest,_pytest,pytest_*,pluggy,nose,nose2,hypothesis,doctest,mock,coverage,behave}/**",
            "**/{unittest,pytest,_pytest,pytest_*,pluggy,nose,nose2,hypothesis,doctest,mock,coverage,behave}.{py,pyc,so,*.so}",
        ],
    ),
    row("modules that take the place of Python's own", PYTHON_MODULES),
];

/// At the top of the tree or in `src`, from which `python -m` and test runners import first.
const PYTHON_MODULES: &[&str] = &[
    "{,src/}{__future__,__main__,_abc,_aix_support,_ast,_asyncio,_bisect,_blake2,_bootsubprocess,_bz2,_codecs,_codecs_cn,_codecs_hk,_codecs_iso2022,_codecs_jp,_codecs_kr,_codecs_tw,_collections,_collections_abc,_compat_pickle,_compression,_contextvars,_crypt,_csv,_ctypes,_curses,_curses_panel,_datetime,_dbm,_decimal,_elementtree,_frozen_importlib,_frozen_importlib_external,_functools,_gdbm,_hashlib,_heapq,_imp,_io,_json,_locale,_lsprof,_lzma,_markupbase,_md5,_multibytecodec,_multiprocessing,_opcode,_operator,_osx_support,_pickle,_posixshmem,_posixsubprocess,_py_abc,_pydecimal,_pyio,_queue,_random,_sha1,_sha256,_sha3,_sha512,_signal,_sitebuiltins,_socket,_sqlite3,_sre,_ssl,_stat,_statistics,_string,_strptime,_struct,_symtable,_thread,_threading_local,_tkinter,_tokenize,_tracemalloc,_typing,_uuid,_warnings,_weakref,_weakrefset,_zoneinfo,abc,aifc,argparse,array,ast,asynchat,asyncio,asyncore,atexit,audioop,base64,bdb,binascii,bisect,builtins,bz2,cProfile,calendar,cgi,cgitb,chunk,cmath,cmd,code,codecs,codeop,collections,colorsys,compileall,concurrent,configparser,contextlib,contextvars,copy,copyreg,csv,ctypes,curses,dataclasses,datetime,dbm,decimal,difflib,dis,distutils,doctest,email,encodings,ensurepip,enum,errno,faulthandler,fcntl,filecmp,fileinput,fnmatch,fractions,ftplib,functools,gc,genericpath,getopt,getpass,gettext,glob,graphlib,grp,gzip,hashlib,heapq,hmac,html,http,imaplib,imghdr,imp,importlib,inspect,io,ipaddress,itertools,json,keyword,linecache,locale,logging,lzma,mailbox,mailcap,marshal,math,mimetypes,mmap,modulefinder,multiprocessing,netrc,nntplib,ntpath,nturl2path,numbers,opcode,operator,optparse,os,pathlib,pdb,pickle,pickletools,pipes,pkgutil,platform,plistlib,poplib,posix,posixpath,pprint,profile,pstats,pty,pwd,py_compile,pyclbr,pydoc,pydoc_data,pyexpat,queue,quopri,random,re,readline,reprlib,resource,rlcompleter,runpy,sched,secrets,select,selectors,shelve,shlex,shutil,signal,site,smtpd,smtplib,sndhdr,socket,socketserver,sqlite3,sre_compile,sre_constants,sre_parse,ssl,stat,statistics,string,stringprep,struct,subprocess,sunau,symtable,sys,sysconfig,syslog,tabnanny,tarfile,telnetlib,tempfile,termios,textwrap,this,threading,time,timeit,tkinter,token,tokenize,tomllib,trace,traceback,tracemalloc,tty,turtle,types,typing,unicodedata,unittest,urllib,uu,uuid,venv,warnings,wave,weakref,webbrowser,wsgiref,xdrlib,xml,xmlrpc,zipapp,zipfile,zipimport,zlib,zoneinfo}{.,/__init__.}{py,pyc,so,*.so}",
];

/// The globs of rows, in their order.
pub(super) fn globs(rows: &[ProtectedRow]) -> Vec<String> {
    rows.iter().flat_map(|row| row.globs).map(|glob| (*glob).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{DeltaClass, PathRules, PathRulesSource};

    /// Paths that a glob matches: one for each alternative in its first braces, at the top and below.
    fn samples(glob: &str) -> Vec<String> {
        if let Some((before, rest)) = glob.split_once('{') {
            let (choices, after) = rest.split_once('}').unwrap();
            let filled = choices.split(',').flat_map(|choice| samples(&format!("{before}{choice}{after}")));
            return filled.collect();
        }
        let plain = |glob: &str| {
            let inside =
                glob.strip_suffix("/**").map_or(glob.to_owned(), |folder| format!("{folder}/inside"));
            inside.replace("[0-9]", "1").replace(['*', '?'], "x")
        };
        match glob.strip_prefix("**/") {
            Some(rest) => vec![plain(rest), format!("a/deep/folder/{}", plain(rest))],
            None => vec![plain(glob)],
        }
    }

    /// Every row of docs/protected-paths.md, and every name in it, also in other letters and as a folder that a link replaces.
    #[test]
    fn every_row_protects_what_it_names() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        for row in PROTECTED_LAWS {
            for path in row.globs.iter().flat_map(|glob| samples(glob)) {
                for name in [path.clone(), path.to_uppercase()] {
                    assert_eq!(rules.class_of(&name, None), DeltaClass::Laws, "{}: {name}", row.tool);
                    assert!(!rules.permits(&name), "{}: {name}", row.tool);
                }
                if let Some(folder) = path.strip_suffix("/inside") {
                    assert!(!rules.permits(folder), "{}: {folder}", row.tool);
                }
            }
        }
        for row in PROTECTED_INVARIANTS {
            for path in row.globs.iter().flat_map(|glob| samples(glob)) {
                assert_eq!(rules.class_of(&path, None), DeltaClass::Invariants, "{}: {path}", row.tool);
            }
        }
    }

    /// The paths of the sample file, each with its class and row.
    fn documented() -> Vec<(&'static str, &'static str, &'static str)> {
        let mut samples = Vec::new();
        let mut heading = ("", "");
        for line in include_str!("../../tests/protected-paths.txt").lines() {
            if let Some(path) = line.strip_prefix("    ") {
                samples.push((heading.0, heading.1, path));
            } else if !line.starts_with('#') && !line.is_empty() {
                heading = line.split_once(": ").unwrap();
            }
        }
        samples
    }

    /// Paths written down from the tools' own documentation, not from the globs: at the top, and a folder deep if the glob is for any depth.
    #[test]
    fn every_row_protects_what_its_tool_documents() {
        let rules = PathRules::load(&PathRulesSource::default()).unwrap();
        let samples = documented();
        let classes = [
            ("laws", PROTECTED_LAWS, DeltaClass::Laws),
            ("tests", PROTECTED_INVARIANTS, DeltaClass::Invariants),
        ];
        for (class, rows, expected) in classes {
            for row in rows {
                let of_row: Vec<&str> = samples
                    .iter()
                    .filter(|sample| (sample.0, sample.1) == (class, row.tool))
                    .map(|sample| sample.2)
                    .collect();
                let mut matched = vec![false; of_row.len()];
                for glob in row.globs {
                    let laws = vec![(*glob).to_owned()];
                    let none = Vec::new();
                    let alone = PathRulesSource { laws, invariants: none, ..PathRulesSource::default() };
                    let alone = PathRules::load(&alone).unwrap();
                    let hits = of_row.iter().map(|path| alone.class_of(path, None) == DeltaClass::Laws);
                    let hits: Vec<bool> = hits.collect();
                    assert!(hits.contains(&true), "{}: no sample for `{glob}`", row.tool);
                    for (path, _) in of_row.iter().zip(&hits).filter(|(_, hit)| **hit) {
                        let deep = glob.starts_with("**/").then(|| format!("packages/one/{path}"));
                        for path in [(*path).to_owned()].into_iter().chain(deep) {
                            assert_eq!(rules.class_of(&path, None), expected, "{}: {path}", row.tool);
                        }
                    }
                    matched.iter_mut().zip(hits).for_each(|(matched, hit)| *matched |= hit);
                }
                for (path, matched) in of_row.iter().zip(matched) {
                    assert!(matched, "{}: no glob of this row is for {path}", row.tool);
                }
            }
        }
        let is_row = |class: &str, tool: &str| {
            classes.iter().any(|(name, rows, _)| *name == class && rows.iter().any(|row| row.tool == tool))
        };
        for (class, tool, path) in samples {
            assert!(class == "free" || is_row(class, tool), "{class}: {tool} is no row");
            let found = rules.class_of(path, None);
            let is_free = matches!(found, DeltaClass::Others | DeltaClass::Projections);
            assert_eq!(class == "free", is_free, "{path} is {found:?}");
        }
    }
}
