from .call import Ask as Ask
from .call import Call as Call
from .reply import Reply as Reply
from .store import Store as Store
